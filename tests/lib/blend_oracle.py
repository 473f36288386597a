"""Mixup and cutmix as docs/ops.md states them, in numpy, for pictures of SIZE x SIZE: what a batch becomes."""
import math

import numpy as np

from philox import Draws

STREAM = 2**31
SEED = 5
CLASSES = 1000
SIZE = 40


def beta(draws, alpha):
    q = (1 - draws.uniform()) ** (1 / alpha)
    c = math.cos(2 * math.pi * draws.uniform())
    part = (1 - q) * c * c
    return round((0.5 + math.copysign(0.5, c) * math.sqrt(part / (q + part))) * 2**24) / 2**24


def decide(blend, epoch, position):
    """(kind, weight, box)"""
    draws = Draws(SEED, epoch, position, STREAM)
    if not draws.uniform() < blend.get("p", 1):
        return None, 1.0, None
    kinds = [k for k in ("mixup", "cutmix") if k in blend]
    kind = kinds[0]
    if len(kinds) == 2:
        kind = "cutmix" if draws.uniform() < blend.get("switch", 0.5) else "mixup"
    weight = beta(draws, blend[kind])
    if kind == "mixup":
        return kind, weight, None
    half = int(0.5 * math.sqrt(1 - weight) * SIZE)
    y, x = draws.below(SIZE), draws.below(SIZE)
    box = max(y - half, 0), min(y + half, SIZE), max(x - half, 0), min(x + half, SIZE)
    return kind, 1 - (box[1] - box[0]) * (box[3] - box[2]) / SIZE**2, box


def rounded(v, dtype):
    if dtype == "u8":
        return np.rint(v).astype(np.uint8)
    if dtype == "bf16":
        bits = v.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).view(np.float32)
    return v.astype({"f16": np.float16, "f32": np.float32}[dtype])


def mixed(a, b, draw, dtype, planar):
    kind, weight, box = draw
    if kind is None:
        return a
    if kind == "mixup":
        w = np.float32(weight)
        return rounded(w * a.astype(np.float32) + np.float32(1 - w) * b.astype(np.float32), dtype)
    out, at = a.copy(), (slice(box[0], box[1]), slice(box[2], box[3]))
    at = (slice(None), *at) if planar else at
    out[at] = b[at]
    return out


def row(one, other, weight, smoothing):
    off = smoothing / CLASSES
    on = 1 - smoothing + off
    weights = np.full(CLASSES, off)
    weights[one] = on
    if other != one:
        weights[one], weights[other] = weight * on + (1 - weight) * off, weight * off + (1 - weight) * on
    return weights.astype(np.float32)


def place(first, i, records):
    """(epoch, position) of sample i of a batch whose first is `first`; with records, the next epoch follows."""
    epoch, position = first[0], first[1] + i
    return (epoch + position // records, position % records) if records else (epoch, position)


def expect(plain, blend, output, size, wrap=None):
    """Images and labels of one global batch, from the batch without mixing."""
    n, mode = len(plain.valid), blend.get("mode", "pair")
    images, labels = plain.images.copy(), np.zeros((n, CLASSES), np.float32)
    first = plain.epoch, plain.step * size + (-plain.epoch * wrap % size if wrap else 0)
    for i in range(n):
        partner = (i - 1) % n if mode == "roll" else i ^ 1
        draw = decide(blend, *place(first, {"pair": i // 2 * 2, "elem": i}.get(mode, 0), wrap))
        if not plain.valid[i]:
            assert not plain.images[i].any()
            continue
        if partner >= n or not plain.valid[partner] or (n < size and mode != "roll"):
            draw = None, 1.0, None
            partner = i
        images[i] = mixed(plain.images[i], plain.images[partner], draw, output["dtype"], output["layout"] == "nchw")
        labels[i] = row(plain.labels[i], plain.labels[partner], draw[1], blend.get("smoothing", 0))
    return images, labels
