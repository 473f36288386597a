"""Mixup and cutmix: what comes out is what numpy makes of the batches without them, with the draws of docs/ops.md replayed
by a second Philox; and it is the same at any number of ranks, workers and restarts."""
import json
import math
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402
from philox import Draws  # noqa: E402

STREAM = 2**31
SEED = 5
CLASSES = 1000
SIZE = 40
OPS = [{"resize": 48}, {"random_crop": SIZE}, "hflip"]
NORMALIZE = {"normalize": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}
F32 = {"dtype": "f32", "layout": "nchw"}
BOTH = {"mixup": 0.4, "cutmix": 1}


def pipeline(blend=None, output=None, records=96, batch=16, ops=None, dataset=None, **keys):
    output = output or F32
    ops = ops or OPS + [NORMALIZE] * (output["dtype"] != "u8")
    fields = {"image": {"ops": ops, "output": output}, "label": None}
    dataset = dataset or feed.synth("images", records, "--width", 64, "--height", 56)
    if blend is not None:
        keys["blend"] = {"images": "image", "labels": "label", "num_classes": CLASSES, **blend}
    return feed.conf(dataset, seed=SEED, batch=batch, fields=fields, **keys)


class Batch:
    """A copy of what matters of a batch."""

    def __init__(self, b):
        self.epoch, self.step, self.valid, self.records = b.epoch, b.step, b.valid.copy(), b.records.copy()
        self.images, self.labels = wide(b, "image"), b["label"].copy()


def wide(b, name):
    array = b[name]
    if b.dtype(name) == "bf16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.copy()


def take(keys, count, **options):
    with headrace.Loader(keys, **options) as loader:
        out = []
        while len(out) < count:
            for b in loader:
                out.append(Batch(b))
                if len(out) == count:
                    break
        return out


# ---- the page, in numpy ----


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


def expect(plain, blend, output, size):
    """Images and labels of one global batch, from the batch without mixing."""
    n, mode = len(plain.valid), blend.get("mode", "pair")
    images, labels = plain.images.copy(), np.zeros((n, CLASSES), np.float32)
    first = plain.step * size
    for i in range(n):
        partner = (i - 1) % n if mode == "roll" else i ^ 1
        at = {"pair": first + i // 2 * 2, "elem": first + i}.get(mode, first)
        draw = decide(blend, plain.epoch, at)
        if not plain.valid[i]:
            continue
        if partner >= n or not plain.valid[partner] or (n < size and mode != "roll"):
            draw = None, 1.0, None
            partner = i
        images[i] = mixed(plain.images[i], plain.images[partner], draw, output["dtype"], output["layout"] == "nchw")
        labels[i] = row(plain.labels[i], plain.labels[partner], draw[1], blend.get("smoothing", 0))
    return images, labels


def check(blend, output=None, batches=4, size=16, **keys):
    output = output or F32
    plain = take(pipeline(None, output, batch=size, **keys), batches)
    got = take(pipeline(blend, output, batch=size, **keys), batches)
    changed = 0
    for a, b in zip(plain, got):
        assert (a.epoch, a.step) == (b.epoch, b.step) and np.array_equal(a.records, b.records)
        images, labels = expect(a, blend, output, size)
        assert b.labels.dtype == np.float32 and b.labels.shape == labels.shape
        assert np.array_equal(b.labels, labels), (a.step, np.argwhere(b.labels != labels)[:4])
        assert np.array_equal(b.images, images), (a.step, np.argwhere(b.images != images)[:4])
        changed += (images != a.images).any(axis=(1, 2, 3)).sum()
    return changed


@pytest.mark.parametrize("mode", ["pair", "batch", "elem", "roll"])
@pytest.mark.parametrize("dtype,layout", [("f32", "nchw"), ("f16", "nchw"), ("bf16", "nhwc"), ("u8", "nhwc")])
def test_pictures_and_labels_are_mixed_as_the_page_says(mode, dtype, layout):
    changed = check({**BOTH, "mode": mode, "smoothing": 0.1}, {"dtype": dtype, "layout": layout}, batches=6)
    assert changed > 40 or mode in ("batch", "roll")
