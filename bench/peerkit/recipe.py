"""What every loader is asked for: a random box of the picture, resized to 224 x 224, mirrored in one of two, normalized, channels
first, f16. Helpers for those loaders that leave the box and the arithmetic to the user, or stand on torch. No imports but NumPy, and
that late."""
import math

SIZE = 224
PASSES = 40     # over the pictures, in what a loader takes for one epoch: the stop between two is not what is compared
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
MEAN_255 = tuple(255 * v for v in MEAN)
STD_255 = tuple(255 * v for v in STD)


def depth(cores):
    """Batches that may wait in the queues of torch's DataLoader: for an entry's file that feeds through one."""
    return 3 * cores if cores > 1 else 0


def random_box(rng, width, height):
    """(left, top, width, height) as torchvision draws it: area 8 .. 100 %, aspect 3/4 .. 4/3, ten tries. rng: random.Random."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        aspect = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    side_w, side_h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - side_w) // 2, (height - side_h) // 2, side_w, side_h


class Normalizer:
    """u8 HWC -> f16 CHW with buffers of its own; not for several threads at once."""

    def __init__(self):
        import numpy as np
        self.np = np
        self.scale = (1 / np.array(STD_255, np.float32)).reshape(3, 1, 1)
        self.shift = (-np.array(MEAN, np.float32) / np.array(STD, np.float32)).reshape(3, 1, 1)
        self.work = np.empty((3, SIZE, SIZE), np.float32)

    def __call__(self, pixels, out=None):
        np = self.np
        if out is None:
            out = np.empty((3, SIZE, SIZE), np.float16)
        np.multiply(pixels.transpose(2, 0, 1), self.scale, out=self.work)
        self.work += self.shift
        out[...] = self.work
        return out
