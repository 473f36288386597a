#!/usr/bin/env python3
"""Resize against Pillow: every pixel within 1, every filter, and exact where an axis stays."""
import ctypes
import random
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FILTERS = {
    0: Image.Resampling.BILINEAR,
    1: Image.Resampling.BICUBIC,
    2: Image.Resampling.LANCZOS,
    3: Image.Resampling.BOX,
    4: Image.Resampling.NEAREST,
}
NAMES = ["bilinear", "bicubic", "lanczos3", "area", "nearest"]
FIELDS = ("in_w in_h out_w out_h full_out_w full_out_h out_x out_y channels filter flip_h flip_v "
          "level").split()


class Args(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in FIELDS]


def resample(lib, pixels, out_w, out_h, filter, level, full=None, at=(0, 0), flip=(0, 0)):
    h, w, channels = pixels.shape
    full = full or (out_w, out_h)
    args = Args(w, h, out_w, out_h, *full, *at, channels, filter, *flip, level)
    out = np.empty((out_h, out_w, channels), np.uint8)
    rc = lib.bridge_resample(ctypes.byref(args), pixels.ctypes.data_as(ctypes.c_void_p),
                             out.ctypes.data_as(ctypes.c_void_p))
    assert rc == 0, rc
    return out


def pillow(pixels, out_w, out_h, filter):
    # Pillow 13 runs the vertical pass first where that is cheaper; the order before that, and ours,
    # is horizontal, then vertical. With clipping between the passes the order shows.
    image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    image = image.resize((out_w, image.height), FILTERS[filter])
    out = np.asarray(image.resize((out_w, out_h), FILTERS[filter]))
    return out.reshape(out_h, out_w, pixels.shape[2])


def picture(rng, w, h, channels):
    kind = rng.integers(4)
    if kind == 0:  # noise
        return rng.integers(0, 256, (h, w, channels), np.uint8)
    if kind == 1:  # black and white
        return (rng.integers(0, 2, (h, w, channels)) * 255).astype(np.uint8)
    if kind == 2:  # flat
        return np.full((h, w, channels), rng.integers(0, 256), np.uint8)
    y, x = np.mgrid[0:h, 0:w]  # smooth, with a little noise
    waves = [127 + 100 * np.sin(x / 17 + c) * np.cos(y / 23 - c) for c in range(channels)]
    noise = rng.normal(0, 6, (h, w, channels))
    return np.clip(np.stack(waves, 2) + noise, 0, 255).astype(np.uint8)


def side(rng):
    return int(rng.choice([rng.integers(1, 40), rng.integers(40, 640)]))


def check(name, ours, theirs, worst):
    diff = np.abs(ours.astype(int) - theirs.astype(int))
    state = worst.setdefault(name, [0, 0, 0])
    state[0] = max(state[0], int(diff.max()))
    state[1] += int(diff.sum())
    state[2] += diff.size


def main():
    lib = ctypes.CDLL(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    rng = np.random.default_rng(1)
    random.seed(1)
    worst = {}
    for i in range(rounds):
        w, h, out_w, out_h = side(rng), side(rng), side(rng), side(rng)
        pixels = np.ascontiguousarray(picture(rng, w, h, random.choice([1, 3])))
        filter = i % 5
        theirs = pillow(pixels, out_w, out_h, filter)
        for level in range(lib.bridge_level() + 1):
            check(NAMES[filter], resample(lib, pixels, out_w, out_h, filter, level), theirs, worst)
            x, y = random.randrange(out_w), random.randrange(out_h)
            ww, wh = random.randint(1, out_w - x), random.randint(1, out_h - y)
            flip = (random.randint(0, 1), random.randint(0, 1))
            part = resample(lib, pixels, ww, wh, filter, level, (out_w, out_h), (x, y), flip)
            want = theirs[y:y + wh, x:x + ww]
            want = want[::-1] if flip[1] else want
            want = want[:, ::-1] if flip[0] else want
            check(NAMES[filter] + " window", part, want, worst)
        # an axis that stays is untouched
        for ow, oh in ((w, out_h), (out_w, h), (w, h)):
            ours = resample(lib, pixels, ow, oh, filter, lib.bridge_level())
            check(NAMES[filter] + " one axis", ours, pillow(pixels, ow, oh, filter), worst)
            if (ow, oh) == (w, h):
                assert (ours == pixels).all(), "pass-through is not exact"
    for name, (largest, total, count) in sorted(worst.items()):
        print(f"{name:20} max {largest} mean {total / count:.6f}")
        assert largest <= (0 if name.startswith("nearest") else 1), name
        assert total <= count * 0.01, name


main()
