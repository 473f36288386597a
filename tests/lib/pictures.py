"""Pictures through hr_image_tool, for tests that compare them with other programs."""
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    raise unittest.SkipTest(f"{missing}: pip install pillow numpy")

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build"))
TOOL = os.environ.get("HR_IMAGE_TOOL", str(BUILD / "tests" / "golden" / "hr_image_tool"))
DTYPES = {"u8": np.uint8, "f16": np.float16, "f32": np.float32}


def shared():
    for place in [os.environ.get("HR_SHARED"), ROOT.parent / "shared", ROOT.parents[1] / "shared"]:
        if place and (Path(place) / "cases" / "MANIFEST.tsv").exists():
            return Path(place)
    return None


SHARED = shared()
if not Path(TOOL).exists():
    raise unittest.SkipTest(f"{TOOL} is not built")


def run(path, ops="", output="dtype=u8", options="", *flags, **numbers):
    """(array, plan), or (None, error)."""
    args = [TOOL, str(path), "--ops", ops, "--output", output, *flags]
    if options:
        args += ["--options", options]
    for name, value in numbers.items():
        args += [f"--{name}", str(value)]
    r = subprocess.run(args, capture_output=True, timeout=120)
    line = r.stderr.decode().strip().splitlines()
    if r.returncode not in (0, 1) or not line:
        raise AssertionError(f"{' '.join(args)}: exit {r.returncode}\n{r.stderr.decode()[-2000:]}")
    told = json.loads(line[-1])
    if r.returncode == 1:
        return None, told
    dtype = re.search(r"dtype=(\w+)", output)
    kind = dtype.group(1) if dtype else "u8"
    if kind == "bf16":
        array = (np.frombuffer(r.stdout, np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        array = np.frombuffer(r.stdout, DTYPES[kind])
    return array.reshape(told["shape"]), told


def whole(path, options="", *flags):
    return run(path, "", "ragged=true", options, *flags)


def measure(path, flag="--measure"):
    r = subprocess.run([TOOL, str(path), flag], capture_output=True, text=True, timeout=120)
    return json.loads(r.stdout if r.returncode == 0 else r.stderr)


def resize(pixels, w, h, filter=Image.Resampling.BILINEAR):
    """Horizontal first, then vertical: newer Pillows choose the order by cost."""
    image = Image.fromarray(pixels).resize((w, pixels.shape[0]), filter)
    return np.asarray(image.resize((w, h), filter))


def worst(a, b):
    return int(np.abs(a.astype(int) - b.astype(int)).max())


class Folder(unittest.TestCase):
    """A folder of its own for each test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path
