"""Makes tests/data/ops: two pictures, and what torchvision makes of them. Run by hand, with torch, torchvision,
Pillow and numpy:

    python tests/golden/ops_vectors.py tests/data/ops

Ops are those of torchvision.transforms.v2.functional on Pillow pictures, gaussian_blur and erase on uint8 tensors. Exact
results are kept as the sha256 of their pixels, the others (see MOST) as arrays. tests/python/test_ops.py compares.
"""
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

NEAREST, BILINEAR = "nearest", "bilinear"


def cases():
    """(ops as hr_image_tool takes them, function of torchvision, arguments, on tensors, largest difference)"""
    out = []

    def add(ops, name, *arguments, tensor=False, most=0):
        out.append((ops, name, list(arguments), tensor, most))

    for f in (0, 0.31, 1, 1.73):
        add(f"color_jitter brightness={f},{f}", "adjust_brightness", f)
        add(f"color_jitter contrast={f},{f}", "adjust_contrast", f)
        add(f"color_jitter saturation={f},{f}", "adjust_saturation", f)
        add(f"sharpness factor={f} p=1", "adjust_sharpness", f)
    for f in (-0.5, -0.21, 0.001, 0.1, 0.37):
        add(f"color_jitter hue={f},{f}", "adjust_hue", f)
    for t in (0, 77.5, 128, 256):
        add(f"solarize threshold={t} p=1", "solarize", t)
    for b in range(1, 9):
        add(f"posterize bits={b} p=1", "posterize", b)
    add("grayscale p=1", "rgb_to_grayscale", 3)
    for name in ("equalize", "autocontrast", "invert"):
        add(f"{name} p=1", name)
    for kernel, sigma in (([3, 3], 0.4), ([9, 9], 1.3), ([23, 23], 2.0), ([5, 11], 1.5)):
        add(f"gaussian_blur kernel_size={kernel[0]},{kernel[1]} sigma={sigma}", "gaussian_blur", kernel, [sigma, sigma],
            tensor=True, most=1)
    for how in (NEAREST, BILINEAR):
        most = int(how == BILINEAR)
        for d in (0, 17, -33.3, 90, 180, 271.5):
            add(f"rotate degrees={d},{d} interpolation={how} fill=10,20,30", "rotate", d, how, False, None, [10, 20, 30],
                most=most)
        for d, s, x, y in ((30, 1, 0, 0), (-20, 0.7, 10, 0), (5, 1.4, -20, 15), (0, 1.3, 0, 0)):
            add(f"affine degrees={d},{d} scale={s},{s} shear={x},{x},{y},{y} interpolation={how} fill=128", "affine",
                d, [0, 0], s, [x, y], how, 128, most=most)
    return out


def pictures():
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:45, 0:61]
    a = np.stack([x * 4, y * 5, 255 - x * 2 - y], -1) + rng.integers(-12, 13, (45, 61, 3))
    a[10:30, 20:40] = [230, 40, 60]
    a[15:20, 5:55] = 250
    a[(x - 45) ** 2 + (y - 30) ** 2 < 80] = [20, 60, 200]
    b = rng.integers(0, 3, (21, 33, 3)) * 40 + 60
    return {"a": np.clip(a, 0, 255).astype(np.uint8), "b": b.astype(np.uint8)}


def apply(functional, case, pixels):
    import torch
    from torchvision.transforms.v2 import InterpolationMode

    _, name, arguments, tensor, _ = case
    arguments = [InterpolationMode(v) if v in (NEAREST, BILINEAR) else v for v in arguments]
    if tensor:
        result = getattr(functional, name)(torch.from_numpy(pixels.copy()).permute(2, 0, 1), *arguments)
        return result.permute(1, 2, 0).numpy()
    return np.asarray(getattr(functional, name)(Image.fromarray(pixels), *arguments))


def main(folder):
    import torchvision
    from torchvision.transforms.v2 import functional

    exact, arrays = {}, {}
    for name, pixels in pictures().items():
        Image.fromarray(pixels).save(folder / f"{name}.png", optimize=True)
        for i, case in enumerate(cases()):
            result = np.ascontiguousarray(apply(functional, case, pixels))
            if case[4]:
                arrays[f"{name}{i}"] = result
            else:
                exact[f"{name}: {case[0]}"] = hashlib.sha256(result.tobytes()).hexdigest()[:32]
    made = {"torchvision": torchvision.__version__, "pillow": Image.__version__, "exact": exact}
    (folder / "exact.json").write_text(json.dumps(made, indent=0) + "\n")
    np.savez_compressed(folder / "close.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
