"""Grain: Python over a list of files, here with OpenCV; threads on one core, else a process a core."""
import threading

VENV = "grain"
PACKAGES = ["grain", "opencv-python-headless"]
MODES = {"": {"title": "Grain + OpenCV",
              "given": "files; full decode, INTER_AREA where it shrinks, arithmetic in NumPy; threads on one core, else a process a core"}}


def depth(cores):
    return 3 * cores     # batches that may wait in queues


OWN = threading.local()


class Load:
    """A random transform: a function of the path and a NumPy generator."""

    def __call__(self, path, generator):
        import random

        import cv2
        import numpy as np
        from peerkit import recipe
        if not hasattr(OWN, "normalize"):
            OWN.normalize = recipe.Normalizer()
        rng = random.Random(int(generator.integers(1 << 62)))
        with open(path, "rb") as file:
            pixels = cv2.imdecode(np.frombuffer(file.read(), np.uint8), cv2.IMREAD_COLOR_RGB)
        x, y, w, h = recipe.random_box(rng, pixels.shape[1], pixels.shape[0])
        shrinks = w >= recipe.SIZE and h >= recipe.SIZE
        pixels = cv2.resize(pixels[y:y + h, x:x + w], (recipe.SIZE, recipe.SIZE),
                            interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
        if rng.random() < 0.5:
            pixels = pixels[:, ::-1]
        return OWN.normalize(pixels)


def batches(job):
    import cv2
    import grain
    cv2.setNumThreads(0)
    dataset = grain.MapDataset.source(job.files).seed(job.seed).shuffle().repeat().random_map(Load()).batch(job.batch, drop_remainder=True)
    dataset = dataset.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))
    if job.cores > 1:
        dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=job.cores, per_worker_buffer_size=2))
    yield from dataset
