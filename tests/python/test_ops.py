"""Ops on pixels: against torchvision's results as kept in tests/data/ops, and against Pillow (and torchvision, where it
is installed) on the spot, with whatever was drawn."""
import hashlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from pictures import BUILD, ROOT, SHARED, TOOL

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

DATA = ROOT / "tests" / "data" / "ops"
sys.path.insert(0, str(ROOT / "tests" / "golden"))
import ops_vectors  # noqa: E402


def run(path, ops, output="dtype=u8 ragged=true", options="", **numbers):
    args = [TOOL, str(path), "--ops", ops, "--output", output]
    args += ["--options", options] if options else []
    for name, value in numbers.items():
        args += [f"--{name}", str(value)]
    r = subprocess.run(args, capture_output=True, timeout=60)
    told = json.loads(r.stderr.decode().strip().splitlines()[-1])
    if r.returncode:
        raise AssertionError(f"{ops}: {told}")
    kind = np.float32 if "f32" in output else np.uint8
    return np.frombuffer(r.stdout, kind).reshape(told["shape"])


def drawn(ops, w, h, count, seed=0):
    r = subprocess.run([TOOL, "--steps", str(count), "--size", f"{w}x{h}", "--ops", ops, "--seed", str(seed)],
                       capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in r.stdout.splitlines()]


def open_picture(name):
    return Image.open(DATA / f"{name}.png").convert("RGB")


def worst(a, b):
    return int(np.abs(np.asarray(a).astype(int) - np.asarray(b).astype(int)).max())


def hue(image, factor):
    h, s, v = image.convert("HSV").split()
    h = h.point([(i + int(factor * 255)) % 256 for i in range(256)])
    return Image.merge("HSV", (h, s, v)).convert("RGB")


def with_pillow(image, step, fill=0):
    """One drawn step as Pillow does it."""
    value, kind = step["value"], step["kind"]
    if kind == "warp":
        m, how = step["map"], Image.Resampling[step["interpolation"].upper()]
        flat = m[6] == m[7] == 0
        return image.transform(image.size, Image.Transform.AFFINE if flat else Image.Transform.PERSPECTIVE,
                               m[:6] if flat else m[:8], how, fillcolor=(fill,) * 3)
    if kind == "erase":
        image = image.copy()
        x, y, w, h = step["box"]
        image.paste((fill,) * 3, (x, y, x + w, y + h))
        return image
    return {
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(value),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(value),
        "saturation": lambda: ImageEnhance.Color(image).enhance(value),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(value),
        "hue": lambda: hue(image, value),
        "solarize": lambda: ImageOps.solarize(image, value),
        "posterize": lambda: ImageOps.posterize(image, step["bits"]) if step["bits"] else image.point(lambda v: 0),
        "equalize": lambda: ImageOps.equalize(image),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "invert": lambda: ImageOps.invert(image),
        "grayscale": lambda: image.convert("L").convert("RGB"),
    }[kind]()


class Kept(unittest.TestCase):
    def test_results_of_torchvision(self):
        exact = json.loads((DATA / "exact.json").read_text())["exact"]
        close = np.load(DATA / "close.npz")
        off = 0
        for name in "ab":
            for i, (ops, _, _, _, most) in enumerate(ops_vectors.cases()):
                with self.subTest(picture=name, ops=ops):
                    got = run(DATA / f"{name}.png", ops)
                    if most:
                        want = close[f"{name}{i}"]
                        self.assertLessEqual(worst(got, want), most)
                        off = max(off, float((got != want).mean()))
                    else:
                        self.assertEqual(hashlib.sha256(got.tobytes()).hexdigest()[:32], exact[f"{name}: {ops}"])
        print(f"\nat most {off:.2%} of the values of a picture differ, by 1")
        self.assertLess(off, 0.03)

    def test_torchvision_itself(self):
        try:
            from torchvision.transforms.v2 import functional
        except (ImportError, RuntimeError) as missing:
            self.skipTest(f"torchvision: {missing}")
        pixels = np.random.default_rng(3).integers(0, 256, (52, 37, 3)).astype(np.uint8)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "noise.png"
            Image.fromarray(pixels).save(path)
            for case in ops_vectors.cases():
                with self.subTest(ops=case[0]):
                    want = ops_vectors.apply(functional, case, pixels)
                    self.assertLessEqual(worst(run(path, case[0]), want), case[4])


class Drawn(unittest.TestCase):
    """What is drawn is done by Pillow, too."""

    def check(self, ops, count, name="a", most=0, fill=0):
        image = open_picture(name)
        seen = set()
        for position, line in enumerate(drawn(ops, *image.size, count)):
            want = image
            for step in line["steps"]:
                want = with_pillow(want, step, fill)
                seen.add(step["kind"])
            got = run(DATA / f"{name}.png", ops, position=position)
            self.assertLessEqual(worst(got, want), most, (ops, position, line["steps"]))
        return seen

    def test_color_jitter(self):
        seen = self.check("color_jitter brightness=0.6 contrast=0.7 saturation=0.8 hue=0.5; grayscale p=0.2", 20)
        self.assertGreaterEqual(seen, {"brightness", "contrast", "saturation", "hue"})

    def test_tone(self):
        self.check("solarize 90; posterize 3; equalize; autocontrast; sharpness 1.8; invert", 20)
        self.check("equalize; invert; autocontrast; posterize 0 p=0.1", 10, "b")

    def test_policies(self):
        seen = self.check("rand_augment num_ops=3 fill=77", 30, fill=77)
        seen |= self.check("trivial_augment", 30)
        for policy in ("imagenet", "cifar10", "svhn"):
            seen |= self.check(f"auto_augment {policy}", 15)
        self.assertEqual(seen, {"brightness", "contrast", "saturation", "sharpness", "solarize", "posterize",
                                "equalize", "autocontrast", "invert", "warp"})

    def test_warps(self):
        for how, most in (("nearest", 0), ("bilinear", 1), ("bicubic", 1)):
            self.check(f"rotate 180 interpolation={how} fill=9", 8, most=most, fill=9)
            self.check(f"affine 40 translate=0.2,0.3 scale=0.5,2 shear=30 interpolation={how}", 8, most=most)
            self.check(f"perspective 0.6 p=1 interpolation={how} fill=200", 8, most=most, fill=200)

    def test_bicubic(self):
        self.check("rotate 180 interpolation=bicubic", 12, "b", most=1)
        with tempfile.TemporaryDirectory() as folder:  # noise, black and white: where cutting at 0 and 255 matters
            path, off = Path(folder) / "noise.png", 0
            for high in (2, 256):
                pixels = np.random.default_rng(4).integers(0, high, (52, 37, 3)).astype(np.uint8) * (255 // (high - 1))
                Image.fromarray(pixels).save(path)
                for ops in ("rotate degrees=33,33", "perspective 0.5 p=1", "affine 20 scale=2,3", "affine 5 scale=0.4,0.5"):
                    ops += " interpolation=bicubic"
                    for position, line in enumerate(drawn(ops, 37, 52, 6)):
                        want = np.asarray(with_pillow(Image.fromarray(pixels), line["steps"][0]))
                        got = run(path, ops, position=position)
                        self.assertLessEqual(worst(got, want), 1, ops)
                        off = max(off, float((got != want).mean()))
        print(f"\nbicubic: at most {off:.2%} of the values of a picture differ, by 1")
        self.assertLess(off, 0.02)

    def test_center(self):
        image = open_picture("a")
        for x, y in ((0, 0), (20, 31), (61, 0), (-7.5, 12.25)):
            want = image.rotate(30, center=(x, y))
            self.assertEqual(worst(run(DATA / "a.png", f"rotate degrees=30,30 center={x},{y}"), want), 0)
            turned = run(DATA / "a.png", f"affine degrees=-30,-30 center={x},{y}")
            self.assertLessEqual(float((turned != np.asarray(want)).mean()), 0.01)

    def test_erasing(self):
        self.check("erasing p=1 value=140", 10, fill=140)

    def test_magnitudes(self):
        """torchvision's spaces as its page states them, for a picture of 61 x 45."""
        wide = {k: np.linspace(0, v, 31) for k, v in
                {"brightness": 0.99, "saturation": 0.99, "contrast": 0.99, "sharpness": 0.99}.items()}
        for line in drawn("trivial_augment", 61, 45, 400):
            for step in line["steps"]:
                if step["kind"] in wide:
                    space = np.concatenate([1 + wide[step["kind"]], 1 - wide[step["kind"]]])
                    self.assertLess(np.abs(space - step["value"]).min(), 1e-12)
                elif step["kind"] == "solarize":
                    self.assertLess(np.abs(np.linspace(255, 0, 31) - step["value"]).min(), 1e-9)
                elif step["kind"] == "posterize":
                    self.assertIn(step["bits"], range(2, 9))


class Chains(unittest.TestCase):
    def test_views_after_pixels(self):
        image = open_picture("a")
        got = run(DATA / "a.png", "rotate degrees=30,30; center_crop size=20,31; hflip p=1; invert p=1; vflip p=1")
        want = ImageOps.invert(image.rotate(30).crop((15, 12, 46, 32)).transpose(Image.Transpose.ROTATE_180))
        self.assertEqual(worst(got, want), 0)
        got = run(DATA / "a.png", "posterize 3 p=1; resize size=30,40; solarize p=1; random_resized_crop 16 scale=1,1 "
                                  "ratio=1.3333,1.3334")
        want = ImageOps.posterize(image, 3).resize((40, 45), Image.Resampling.BILINEAR)
        want = ImageOps.solarize(want.resize((40, 30), Image.Resampling.BILINEAR), 128)
        want = want.resize((16, 30), Image.Resampling.BILINEAR).resize((16, 16), Image.Resampling.BILINEAR)
        self.assertLessEqual(np.median(np.abs(got.astype(int) - np.asarray(want).astype(int))), 1)

    def test_jitter_by_nothing_changes_nothing(self):
        got = run(DATA / "a.png", "color_jitter brightness=0 contrast=1,1 saturation=0 hue=0")
        self.assertEqual(worst(got, open_picture("a")), 0)

    def test_padding(self):
        pixels = np.asarray(open_picture("b"))
        for mode, name in (("constant", "constant"), ("edge", "edge"), ("reflect", "reflect"),
                           ("symmetric", "symmetric")):
            padded = np.pad(pixels, ((50, 50), (50, 50), (0, 0)), mode=name)
            for first in ("", "invert p=0; "):
                got = run(DATA / "b.png", f"{first}random_crop size=121,133 pad=50 mode={mode}")
                self.assertTrue(np.array_equal(got, padded), (mode, first))
        padded = np.pad(pixels, ((9, 9), (9, 9), (0, 0)), constant_values=88)
        got = run(DATA / "b.png", "random_crop size=39,51 pad=9 fill=88; hflip p=1")
        self.assertTrue(np.array_equal(got, padded[:, ::-1]))
        # white around, then black around that
        got = run(DATA / "b.png", "random_crop size=39,51 pad=9 fill=255,255,255; center_crop size=59,71")
        want = np.pad(np.pad(pixels, ((9, 9), (9, 9), (0, 0)), constant_values=255), ((10, 10), (10, 10), (0, 0)))
        self.assertTrue(np.array_equal(got, want))

    def test_floats_come_from_the_same_bytes(self):
        ops = "color_jitter brightness=0.5 hue=0.2; rotate 20"
        pixels = run(DATA / "a.png", ops, position=5)
        got = run(DATA / "a.png", ops + "; normalize mean=0.4 std=0.2", "dtype=f32 layout=nchw ragged=true", position=5)
        self.assertLess(np.abs(got - (pixels.transpose(2, 0, 1) / 255 - 0.4) / 0.2).max(), 1e-5)

    def test_gray(self):
        image = open_picture("a").convert("L")
        ops = "color_jitter contrast=1.5,1.5 saturation=2,2 hue=0.3,0.3; equalize p=1; sharpness 2 p=1"
        got = run(DATA / "a.png", ops, "dtype=u8 ragged=true channels=gray", position=1)
        want = ImageEnhance.Sharpness(ImageOps.equalize(ImageEnhance.Contrast(image).enhance(1.5))).enhance(2)
        self.assertEqual(worst(got[:, :, 0], want), 0)

    def test_erasing_after_normalize(self):
        norm = "normalize mean=0.4 std=0.2"
        for layout, axes in (("nhwc", (0, 1, 2)), ("nchw", (1, 2, 0))):
            out = f"dtype=f32 layout={layout} ragged=true"
            plain = run(DATA / "a.png", norm, out).transpose(axes)
            x, y, w, h = drawn(norm + "; erasing p=1", 61, 45, 1)[0]["steps"][0]["box"]
            for value, want in (("0", [0] * 3), ("1.5,-2,7", [1.5, -2, 7])):
                got = run(DATA / "a.png", f"{norm}; erasing p=1 value={value}", out).transpose(axes)
                erased = plain.copy()
                erased[y:y + h, x:x + w] = want
                self.assertTrue(np.array_equal(got, erased))
            noisy = f"{norm}; erasing p=1 scale=0.8,0.9 ratio=0.8,1 value=random"
            got = run(DATA / "a.png", noisy, out).transpose(axes)
            noise = got[got != plain]
            self.assertGreater(noise.size, 4000)
            self.assertLess(abs(noise.mean()), 0.07)
            self.assertLess(abs(noise.std() - 1), 0.05)

    def test_frames_of_a_clip_get_one_draw(self):
        tool = BUILD / "tests" / "unit" / "av_tool"
        video = SHARED / "data" / "video" / "codecs" / "h264-vfr-240p.mp4" if SHARED else None
        if not video or not video.exists() or not tool.exists():
            self.skipTest("no shared video (set HR_SHARED)")

        def clip(*ops):
            with tempfile.TemporaryDirectory() as folder:
                args = [tool, "chain", "video", video, f"{folder}/o", "clip:frames=5,start=begin",
                        "op:random_resized_crop,size=40", *ops, "position=3"]
                told = json.loads(subprocess.run(args, capture_output=True, text=True, timeout=60).stdout)
                return np.fromfile(f"{folder}/o.0", np.uint8).reshape(told["outputs"][0]["shape"])

        ops = ["color_jitter brightness=0.5 saturation=0.9 hue=0.3", "rotate 40", "solarize 100 p=0.5"]
        steps = drawn_at("hflip p=0; " + "; ".join(ops), 40, 40, 3, 1)["steps"]
        self.assertGreaterEqual(len(steps), 4)
        plain, got = clip(), clip(*("op:" + o.replace(" p=", ",p=").replace(" ", ",") for o in ops))
        self.assertGreater(worst(plain[0], plain[4]), 0)
        for before, after in zip(plain, got):
            want = Image.fromarray(before)
            for step in steps:
                want = with_pillow(want, step)
            self.assertEqual(worst(after, want), 0)

    def test_points_go_where_pixels_go(self):
        ops = ("random_resized_crop size=160,180 scale=0.8,1 ratio=0.9,1.2; hflip; affine 25 translate=0.05,0.05 "
               "scale=0.8,1.2 shear=10 interpolation=bilinear; random_crop 150; vflip; perspective 0.3 p=0.7; "
               "rand_augment num_ops=1; resize size=120,140")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "dot.png"
            pixels = np.zeros((210, 240, 3), np.uint8)
            pixels[115:124, 101:110] = 255  # the middle is (105.5, 119.5)
            Image.fromarray(pixels).save(path)
            checked = 0
            for position in range(40):
                line = drawn_at(ops, 240, 210, position)
                if any(step["kind"] != "warp" for step in line["steps"]):  # tones change what the dot looks like
                    continue
                got = run(path, ops, position=position)[:, :, 0] > 100
                m = np.array(line["to_result"]).reshape(3, 3) @ [105.5, 119.5, 1]
                x, y = m[:2] / m[2]
                if not (12 < x < 128 and 12 < y < 108):
                    continue
                found = np.argwhere(got).mean(0) + 0.5
                self.assertLess(np.abs(found - [y, x]).max(), 1, (position, line))
                checked += 1
            self.assertGreater(checked, 8)


def drawn_at(ops, w, h, position, seed=0):
    r = subprocess.run([TOOL, "--steps", "1", "--size", f"{w}x{h}", "--ops", ops, "--position", str(position),
                        "--seed", str(seed)],
                       capture_output=True, text=True, timeout=60, check=True)
    return json.loads(r.stdout)


if __name__ == "__main__":
    unittest.main()
