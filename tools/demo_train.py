"""The demo's training loop: a tiny model over whatever the pipeline delivers, in numpy alone, and again in
PyTorch where it is installed. Shows that batches arrive, that a model learns from them, and that a
checkpoint goes on exactly. Not a benchmark.

usage: demo_train.py PIPELINE [--steps N] [--seconds S] [--picture FILE]
"""
import argparse
import struct
import time
import zlib

import numpy as np

import headrace


def write_png(path, pixels):
    """Writes uint8 [H, W, 3] as a PNG file."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b""))


def as_pictures(array):
    """Image or video array of any layout and type -> uint8 [N, H, W, 3], stretched to full range."""
    x = np.asarray(array)
    if x.ndim == 5:
        x = x[:, 0]
    if x.shape[1] == 3:
        x = x.transpose(0, 2, 3, 1)
    if x.shape[-1] == 1:
        x = x.repeat(3, axis=-1)
    if x.dtype != np.uint8:
        x = x.astype(np.float32)
        low, high = x.min(axis=(1, 2), keepdims=True), x.max(axis=(1, 2), keepdims=True)
        x = ((x - low) / np.maximum(high - low, 1e-6) * 255).astype(np.uint8)
    return x


def picture_grid(array, columns=8):
    """Up to 32 pictures side by side, every second pixel."""
    x = as_pictures(array)[:32, ::2, ::2]
    rows = -(-len(x) // columns)
    grid = np.zeros((rows * x.shape[1], columns * x.shape[2], 3), np.uint8)
    for i, picture in enumerate(x):
        r, c = divmod(i, columns)
        grid[r * x.shape[1]:(r + 1) * x.shape[1], c * x.shape[2]:(c + 1) * x.shape[2]] = picture
    return grid


def picture_features(pictures):
    """Mean colours and edge directions in a 4 x 4 grid: uint8 [N, H, W, 3] -> float32 [N, 176]."""
    p = pictures[:, ::4, ::4].astype(np.float32) / 255
    n, h, w = len(p), p.shape[1] // 4 * 4, p.shape[2] // 4 * 4
    gray = p.mean(axis=3)
    dy, dx = np.gradient(gray, axis=1), np.gradient(gray, axis=2)
    size, way = np.hypot(dx, dy), ((np.arctan2(dy, dx) / np.pi % 1) * 8).astype(int) % 8
    maps = [p[..., c] for c in range(3)] + [size * (way == k) for k in range(8)]
    return np.stack([m[:, :h, :w].reshape(n, 4, h // 4, 4, w // 4).mean(axis=(2, 4)).reshape(n, -1) for m in maps], axis=1).reshape(n, -1)


def field_features(field):
    """A small vector a sample: float32 [N, D]; None for what is neither media, text nor tokens."""
    if isinstance(field, headrace.Ragged):
        if field.values.dtype != np.uint8 or field[0].ndim != 1:
            return None
        return np.stack([np.bincount(v, minlength=256)[:256] / max(len(v), 1) for v in field]).astype(np.float32)
    x = np.asarray(field)
    if x.ndim >= 4:
        return picture_features(as_pictures(x))
    if x.ndim >= 2 and np.issubdtype(x.dtype, np.floating):
        wave = x.reshape(len(x), -1).astype(np.float32)
        power = np.abs(np.fft.rfft(wave, axis=1)) ** 2
        return np.log(1e-6 + np.stack([b.mean(axis=1) for b in np.array_split(power, 64, axis=1)], axis=1))
    if x.ndim >= 2:
        return (x.reshape(len(x), -1)[:, :256] % 997 / 997).astype(np.float32)
    return None


def features(batch):
    """The vectors of all fields, one after the other: float32 [N, D]."""
    parts = [field_features(batch[name]) for name in batch if "." not in name and name != "label"]
    parts = [p for p in parts if p is not None]
    return np.concatenate(parts, axis=1) if parts else np.asarray(batch["label"], np.float32)[:, None]


class Classifier:
    """Softmax regression by plain gradient descent."""

    def __init__(self, classes):
        self.classes, self.weights, self.mean, self.spread = classes, None, 0, 1

    def step(self, x, y, rate=0.03):
        self.mean = x.mean(0) if self.weights is None else 0.95 * self.mean + 0.05 * x.mean(0)
        self.spread = x.std(0) if self.weights is None else 0.95 * self.spread + 0.05 * x.std(0)
        x = np.concatenate([np.clip((x - self.mean) / (self.spread + 1e-3), -3, 3), np.ones((len(x), 1), np.float32)], axis=1)
        if self.weights is None:
            self.weights = np.zeros((x.shape[1], self.classes), np.float32)
        score = x @ self.weights
        score = np.exp(score - score.max(1, keepdims=True))
        p = score / score.sum(1, keepdims=True)
        loss = -np.log(np.maximum(p[np.arange(len(y)), y], 1e-9)).mean()
        p[np.arange(len(y)), y] -= 1
        self.weights -= rate * x.T @ p / len(x)
        return float(loss)


class Compressor:
    """Without labels: a linear autoencoder with 16 units (Oja's rule)."""

    def __init__(self):
        self.weights = None

    def step(self, x, rate=0.02):
        x = x - x.mean(0)
        x /= np.linalg.norm(x, axis=1, keepdims=True) + 1e-6
        if self.weights is None:
            self.weights = np.linalg.qr(np.random.default_rng(0).normal(size=(x.shape[1], min(16, x.shape[1]))))[0]
        code = x @ self.weights
        error = x - code @ self.weights.T
        self.weights = np.linalg.qr(self.weights + rate * (error.T @ code))[0]
        return float((error ** 2).sum(1).mean())


def train_numpy(pipeline, steps, limit, picture):
    """Trains, shows the loss, and proves that a checkpoint goes on with the same records."""
    compressor, classifier, losses, fed, classes = Compressor(), None, [], 0, 0
    began = time.perf_counter()
    with headrace.Loader(pipeline) as loader:
        first = time.perf_counter()
        done = False
        while not done:
            for batch in loader:
                if not losses:
                    print(f"first batch after {1000 * (time.perf_counter() - began):.0f} ms "
                          f"({1000 * (first - began):.0f} ms of it starting the sidecar)")
                    for name in batch:
                        field = batch[name]
                        shape = f"ragged, {len(field)} samples" if isinstance(field, headrace.Ragged) else f"{field.dtype} {list(field.shape)}"
                        print(f"    {name}: {shape}")
                    views = [batch[n] for n in batch if not isinstance(batch[n], headrace.Ragged) and np.ndim(batch[n]) >= 4]
                    if views and picture:
                        write_png(picture, picture_grid(views[0]))
                        print(f"    one batch as a picture: {picture}")
                x = features(batch)
                if "label" in batch and not isinstance(batch["label"], headrace.Ragged):
                    y = np.asarray(batch["label"]).astype(np.int64).reshape(len(x))
                    if classifier is None or y.max() >= classes:
                        classes = max(classes, int(y.max()) + 1, 10)
                        classifier = Classifier(classes)
                    losses.append(classifier.step(x, np.maximum(y, 0)))
                else:
                    losses.append(compressor.step(x))
                fed += len(x)
                done = len(losses) >= steps or time.perf_counter() - first > limit
                if done:
                    break
        seconds = time.perf_counter() - first
        tenth = max(1, len(losses) // 10)
        print(f"numpy: {len(losses)} steps, {fed} samples in {seconds:.1f} s; loss {np.mean(losses[:tenth]):.3f} -> {np.mean(losses[-tenth:]):.3f}")
        state, expected = loader.state_dict(), []
        for batch in loader:
            expected = [int(r) for r in batch.records]
            break
        stats = loader.stats()
    with headrace.Loader(pipeline, state=state) as loader:
        for batch in loader:
            assert [int(r) for r in batch.records] == expected or not expected, "the checkpoint went on elsewhere"
            break
    print(f"checkpoint: a new loader went on at epoch {state['epoch']} step {state['step']} with the same records")
    print(f"bad samples: {stats.get('bad_samples', 0)}")


def train_torch(pipeline, steps, limit):
    """The same in PyTorch: tensors over the slots, no copy."""
    try:
        import torch
    except ImportError:
        print("torch: not installed here, left out")
        return
    model, optimizer, losses, done = None, None, [], False
    with headrace.Loader(pipeline) as loader:
        first = time.perf_counter()
        while not done:
            for batch in loader:
                x = torch.from_numpy(features(batch))
                labelled = "label" in batch and not isinstance(batch["label"], headrace.Ragged)
                y = batch.torch()["label"].long().flatten().clamp(min=0) if labelled else None
                if model is None:
                    out = max(10, int(y.max()) + 1) if labelled else x.shape[1]
                    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, out))
                    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
                target = y.clamp(max=model[-1].out_features - 1) if labelled else x
                loss = torch.nn.functional.cross_entropy(model(x), target) if labelled else torch.nn.functional.mse_loss(model(x), x)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                done = len(losses) >= steps or time.perf_counter() - first > limit
                if done:
                    break
    print(f"torch: {len(losses)} steps; loss {losses[0]:.3f} -> {losses[-1]:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pipeline")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=15, help="end earlier than by steps")
    parser.add_argument("--picture")
    args = parser.parse_args()
    train_numpy(args.pipeline, args.steps, args.seconds, args.picture)
    train_torch(args.pipeline, min(args.steps, 50), args.seconds / 2)


if __name__ == "__main__":
    main()
