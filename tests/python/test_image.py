"""Images against Pillow and against the conformance cases."""
import hashlib
import json
import math
import random
import re
import subprocess
import tempfile
import unittest
from collections import Counter, defaultdict
from pathlib import Path

from pictures import ROOT, SHARED, TOOL, resize, run, whole, worst

import numpy as np
from PIL import Image, ImageOps

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


# ---- conformance cases ----

# What is not the listed value, by file: an error by its name, and the rule of docs/images.md.
RULES = {
    "G01f-bomb.gif": ("HR_E_LIMIT", "pixel limit"),
    "J14-12bit.jpg": ("HR_E_FORMAT", "12 bits a sample are refused"),
    "J18-truncated-50pct.jpg": ("HR_E_TRUNCATED", "cut files are refused"),
    "J18b-truncated-in-header.jpg": ("HR_E_TRUNCATED", "cut files are refused"),
    "J21-corrupt.jpg": ("HR_E_DECODE", "a scan that a marker ends early is refused"),
    "J22-zero-byte.jpg": ("HR_E_TRUNCATED", "cut files are refused"),
    "J22b-all-zero-4k.jpg": ("HR_E_FORMAT", "content counts"),
    "J28-bomb-progressive-65500sq.jpg": ("HR_E_LIMIT", "pixel limit"),
    "P08-idat-crc-bad.png": ("HR_E_DECODE", "a wrong CRC of a critical chunk is an error"),
    "P09-heapbof.png": ("HR_E_FORMAT", "content counts"),
    "P09f-sigsegv.png": ("HR_E_TRUNCATED", "cut files are refused"),
    "P10-broken-stream.png": ("HR_E_DECODE", "damage is an error"),
    "P11f-zero-width-gif.gif": ("HR_E_DECODE", "damage is an error"),
    "T01-rgb16.tif": ("HR_E_FORMAT", "tiled TIFFs are refused"),
    "T01f-oom.tif": ("HR_E_DECODE", "damage is an error"),
    "T02f-lab.tif": ("HR_E_DECODE", "Lab is refused"),
}
# No value listed, or another one by our rule: size, mean where it is known, and the rule.
DECODED = {
    "J17-truncated-progressive.jpg": (100, 100, (128.36, 128.22, 126.72), "all scans are there but EOI"),
    "J18b-truncated-no-eoi.jpg": (101, 67, (132.11, 125.23, 128.48), "only EOI is missing"),
    "P29-idat-dos.png": (1, 1, (0, 0, 0), "text chunks are not inflated"),
}


def manifest():
    """(path, expected) of every picture: those of the shared cases, else the copies of the repository."""
    base, tsv = (SHARED / "cases", "MANIFEST.tsv") if SHARED else (ROOT / "tests/data/cases", "MANIFEST.tsv")
    for line in (base / tsv).read_text(encoding="utf-8").splitlines()[1:]:
        cells = line.split("\t")
        if not SHARED or "/img/" in cells[0]:
            yield base / cells[0], cells[7] if SHARED else cells[2]


def numbers(text):
    return tuple(float(v) for v in text.split("/"))


class Cases(unittest.TestCase):
    def check_listed(self, path, expected, *flags):
        """The listed size and means; True when the pixels have the listed digest."""
        name = path.name
        pixels, told = whole(path, "exif=ignore", *flags)
        self.assertIsNotNone(pixels, f"{name}: {told}")
        size = re.search(r"(?:PIL:\w+|avifdec) (\d+)x(\d+)", expected)
        self.assertEqual(pixels.shape, (int(size[2]), int(size[1]), 3), name)
        sha = re.search(r"rgb_sha=(\w+)", expected)
        mean = numbers(re.search(r"rgb_mean=([\d./]+)", expected)[1])
        exact = sha and hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == sha[1]
        for got, want in zip(pixels.reshape(-1, 3).mean(0), mean):
            self.assertLessEqual(abs(got - want), 0.006 if exact else 0.5, name)
        return exact

    def check_oriented(self, path, expected):
        want = re.search(r"oriented=(\d+)x(\d+) top-left8=([\d./]+) bottom-right8=([\d./]+)",
                         expected)
        if not want:
            return
        pixels, told = whole(path)
        self.assertEqual(pixels.shape[:2], (int(want[2]), int(want[1])), path.name)
        corners = [(pixels[:8, :8], want[3]), (pixels[-8:, -8:], want[4])]
        for patch, mean in corners:
            for got, value in zip(patch.reshape(-1, 3).mean(0), numbers(mean)):
                self.assertLessEqual(abs(got - value), 0.02, path.name)

    def outcome(self, path, expected):
        """In words, by what the case was right."""
        if path.name in RULES:
            error, rule = RULES[path.name]
            pixels, told = whole(path)
            self.assertIsNone(pixels, path.name)
            self.assertEqual(told["error"], error, f"{path.name}: {told}")
            return f"rule: {rule} ({error})"
        if path.name in DECODED:
            w, h, mean, rule = DECODED[path.name]
            pixels, told = whole(path)
            self.assertIsNotNone(pixels, f"{path.name}: {told}")
            self.assertEqual(pixels.shape, (h, w, 3))
            for got, value in zip(pixels.reshape(-1, 3).mean(0), mean):
                self.assertLessEqual(abs(got - value), 0.006)
            return f"rule: {rule}"
        exact = self.check_listed(path, expected)
        self.check_oriented(path, expected)
        return "the listed pixels, bit for bit" if exact else "the listed mean within 0.5"

    def test_every_case_gives_its_values_or_the_rule(self):
        outcomes, count = defaultdict(list), 0
        for path, expected in manifest():
            with self.subTest(path.name):
                count += 1
                outcomes[self.outcome(path, expected)].append(path.name)
        print(f"\n{count} cases")
        for outcome, names in sorted(outcomes.items(), key=lambda item: -len(item[1])):
            print(f"{len(names):4} {outcome}" + (f": {' '.join(names)}" if len(names) < 9 else ""))
        self.assertGreater(count, 70 if SHARED else 40)
        # AVIF is lossy and its chroma is widened by another filter than avifdec's.
        near = outcomes["the listed mean within 0.5"]
        self.assertEqual([name for name in near if not name.endswith(".avif")], [])


# ---- chains against Pillow ----


def photos(kind, count, seed):
    files = sorted((SHARED / "data" / "images" / kind).rglob("*.jpg"))
    return random.Random(seed).sample(files, min(count, len(files)))


@unittest.skipUnless(SHARED and (SHARED / "data" / "images").is_dir(),
                     "no shared data (set HR_SHARED)")
class Chains(unittest.TestCase):
    def crop(self, rgb, plan):
        x, y, w, h = plan["crop"]
        return rgb[y:y + h, x:x + w]

    def test_full_decode_is_pillows(self):
        for path in photos("coco", 6, 1) + photos("flowers", 6, 1):
            got, plan = whole(path)
            want = np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
            self.assertTrue(np.array_equal(got, want), path.name)

    def test_random_resized_crop(self):
        for filter in ["bilinear", "bicubic", "lanczos3", "area", "nearest"]:
            kind = {"lanczos3": "LANCZOS", "area": "BOX"}.get(filter, filter.upper())
            for i, path in enumerate(photos("coco", 4, 2) + photos("flowers", 4, 2)):
                rgb = np.asarray(Image.open(path).convert("RGB"))
                got, plan = run(path, f"random_resized_crop size=224 filter={filter}", position=i)
                want = resize(self.crop(rgb, plan), 224, 224, Image.Resampling[kind])
                self.assertLessEqual(worst(got, want), 1, (path.name, filter, plan))

    def test_resize_then_center_crop(self):
        for i, path in enumerate(photos("coco", 5, 3) + photos("flowers", 5, 3)):
            rgb = np.asarray(Image.open(path).convert("RGB"))
            h, w = rgb.shape[:2]
            short = 256 + i * 7
            size = (short, int(short * h / w)) if w <= h else (int(short * w / h), short)
            big = resize(rgb, *size)
            x, y = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
            got, plan = run(path, f"resize {short}; center_crop 224")
            self.assertLessEqual(worst(got, big[y:y + 224, x:x + 224]), 1, (path.name, plan))

    def test_resize_sizes(self):
        path = photos("coco", 1, 4)[0]
        with Image.open(path) as image:
            w, h = image.size
        got, _ = run(path, "resize max_side=100", "ragged=true")
        self.assertEqual(max(got.shape[:2]), 100)
        self.assertEqual(min(got.shape[:2]), int(100 * min(w, h) / max(w, h)))
        got, _ = run(path, "resize size=90,120")
        self.assertEqual(got.shape, (90, 120, 3))

    def test_flips_and_layouts_are_exact(self):
        path = photos("flowers", 1, 5)[0]
        ops = "random_resized_crop size=96,128"
        plain, _ = run(path, ops)
        mirrored, _ = run(path, ops + "; hflip p=1; vflip p=1")
        self.assertLessEqual(worst(mirrored, plain[::-1, ::-1]), 0)
        planar, _ = run(path, ops, "layout=nchw")
        self.assertTrue(np.array_equal(planar, plain.transpose(2, 0, 1)))

    def test_flip_before_crop(self):
        path = photos("flowers", 1, 6)[0]
        rgb = np.asarray(Image.open(path).convert("RGB"))
        got, _ = run(path, "hflip p=1; random_crop 64", position=3)
        unflipped, plan = run(path, "hflip p=1; random_crop 64", position=3)
        x, y, w, h = plan["crop"]
        self.assertTrue(np.array_equal(got, rgb[y:y + h, x:x + w][:, ::-1]))

    def test_normalize(self):
        path = photos("coco", 1, 7)[0]
        ops = "random_resized_crop size=64; normalize mean={} std={}".format(
            ",".join(map(str, MEAN)), ",".join(map(str, STD)))
        u8, _ = run(path, "random_resized_crop size=64")
        want = (u8 / 255.0 - MEAN) / STD
        got, _ = run(path, ops, "dtype=f32 layout=nhwc")
        self.assertLessEqual(float(np.abs(got - want).max()), 1e-6)
        for dtype, digits in [("f16", 11), ("bf16", 8)]:
            got, _ = run(path, ops, f"dtype={dtype} layout=nhwc")
            unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(want), 2.0 ** -5))) + 1 - digits)
            error = np.abs(got.astype(np.float64) - want)
            # half a unit from rounding, and the float arithmetic before it
            self.assertLessEqual(float((error / unit).max()), 0.6, dtype)

    def test_floats_without_normalize_are_0_to_1(self):
        path = photos("coco", 1, 8)[0]
        u8, _ = run(path, "random_resized_crop size=32")
        got, _ = run(path, "random_resized_crop size=32", "dtype=f32")
        self.assertLessEqual(float(np.abs(got - u8 / 255.0).max()), 1e-7)

    def test_gray(self):
        path = photos("coco", 1, 9)[0]
        got, _ = run(path, "", "ragged=true channels=gray")
        want = np.asarray(Image.open(path).convert("L"))
        self.assertTrue(np.array_equal(got[:, :, 0], want))

    def test_padding(self):
        path = photos("flowers", 1, 10)[0]
        rgb = np.asarray(Image.open(path).convert("RGB"))
        h, w = rgb.shape[:2]
        got, _ = run(path, f"center_crop size={h + 11},{w - 31}")
        x = round(31 / 2)
        want = np.zeros((h + 11, w - 31, 3), np.uint8)
        want[5:5 + h] = rgb[:, x:x + w - 31]
        self.assertTrue(np.array_equal(got, want))
        got, plan = run(path, f"random_crop size={h + 20},{w + 20} pad=16")
        x, y = plan["crop"][:2]
        padded = np.pad(rgb, ((16, 16), (16, 16), (0, 0)))
        self.assertTrue(np.array_equal(got, padded[y + 16:y + 36 + h, x + 16:x + 36 + w]))
        # padded, then resized: the black border takes part
        got, plan = run(path, f"center_crop {max(w, h) + 40}; resize size=100,90")
        side = max(w, h) + 40
        square = np.zeros((side, side, 3), np.uint8)
        top, left = (side - h) // 2, (side - w) // 2
        square[top:top + h, left:left + w] = rgb
        self.assertLessEqual(worst(got, resize(square, 90, 100)), 1)
        # resized, then cropped larger: black outside
        got, plan = run(path, "resize size=50,60; center_crop 81")
        want = np.zeros((81, 81, 3), np.uint8)
        want[15:65, 10:70] = resize(rgb, 60, 50)
        self.assertLessEqual(worst(got, want), 1)

    def test_orientations(self):
        base = SHARED / "data" / "images" / "formats" / "exif-orientation"
        for path in sorted(base.glob("*.jpg")):
            image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
            rgb = np.asarray(image)
            got, _ = whole(path)
            self.assertTrue(np.array_equal(got, rgb), path.name)
            for position in range(4):
                ops = "random_resized_crop size=72,96; hflip p=0.5"
                got, plan = run(path, ops, position=position)
                want = resize(self.crop(rgb, plan), 96, 72)
                if plan["flip"][0]:
                    want = want[:, ::-1]
                # 1 from the order of the passes, which turns with the picture, and 1 from rounding
                self.assertLessEqual(worst(got, want), 2, (path.name, plan))
            got, plan = run(path, "resize 120; center_crop size=100,140")
            w, h = image.size
            size = (120, int(120 * h / w)) if w <= h else (int(120 * w / h), 120)
            big = np.zeros((max(size[1], 100), max(size[0], 140), 3), np.uint8)
            left = (big.shape[1] - size[0]) // 2
            big[:size[1], left:left + size[0]] = resize(rgb, *size)
            y, x = round((big.shape[0] - 100) / 2), round((big.shape[1] - 140) / 2)
            self.assertLessEqual(worst(got, big[y:y + 100, x:x + 140]), 2, (path.name, plan))
            got, _ = run(path, "hflip p=1; center_crop size=40,60", "dtype=f32 layout=nchw")
            y, x = round((h - 40) / 2), round((w - 60) / 2)
            want = rgb[:, ::-1][y:y + 40, x:x + 60].transpose(2, 0, 1) / 255
            self.assertLessEqual(float(np.abs(got - want).max()), 1e-6, path.name)

    def test_scaled_decode_is_close(self):
        lowest = math.inf
        for path in photos("coco", 6, 12) + photos("flowers", 6, 12):
            exact, _ = run(path, "resize size=96,96")
            quick, _ = run(path, "resize size=96,96", options="scaled_decode=auto")
            error = np.mean((exact.astype(float) - quick) ** 2)
            lowest = min(lowest, 10 * math.log10(255 ** 2 / max(error, 1e-9)))
        print(f"\nscaled decode: PSNR at least {lowest:.1f} dB")
        self.assertGreater(lowest, 30)


@unittest.skipUnless(SHARED and (SHARED / "data" / "images").is_dir(),
                     "no shared data (set HR_SHARED)")
class Stills(unittest.TestCase):
    """Lossless formats as Pillow writes and reads them; cut ones are refused."""

    def check(self, name, image, most=0, cut=2, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            image.save(path, **options)
            with Image.open(path) as again:
                want = np.asarray(again.convert("RGB"))
            got, told = whole(path)
            self.assertIsNotNone(got, f"{name} {image.mode}: {told}")
            self.assertEqual(got.shape, want.shape)
            self.assertLessEqual(worst(got, want), most, f"{name} {image.mode} {options}")
            path.write_bytes(path.read_bytes()[:path.stat().st_size // cut])
            got, told = whole(path)
            self.assertTrue(got is None, f"{name} {image.mode} {options}: a part was taken for the whole")

    def test_against_pillow(self):
        with Image.open(photos("coco", 1, 1)[0]) as image:
            rgb = image.convert("RGB").crop((0, 0, 131, 97))
        palette = rgb.quantize(200)
        for image in [rgb, palette, rgb.convert("L"), rgb.convert("1"), rgb.convert("RGBA")]:
            self.check("a.bmp", image)
            self.check("a.png", image)
            for packing in [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"]:
                self.check("a.tif", image, compression=packing)
            if image.mode != "RGBA":
                self.check("a.gif", image)
        self.check("a.gif", palette, transparency=5)
        self.check("a.gif", palette, interlace=1)
        self.check("a.gif", palette, cut=6, save_all=True, append_images=[palette.rotate(180)] * 2)
        self.check("a.png", palette, transparency=3)
        self.check("a.webp", rgb.convert("RGBA"), lossless=True)
        self.check("a.webp", rgb, save_all=True, append_images=[rgb.rotate(180)], lossless=True)
        self.check("a.tif", rgb.convert("CMYK"), most=1)


# ---- draws ----


def plans(ops, size, count, output="dtype=u8", seed=0):
    r = subprocess.run([TOOL, "--plan-only", str(count), "--size", size, "--ops", ops, "--output",
                        output, "--seed", str(seed)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in r.stdout.splitlines()]


def chi_square(counts, expected):
    return sum((c - e) ** 2 / e for c, e in zip(counts, expected))


class Draws(unittest.TestCase):
    def test_same_key_same_draw(self):
        ops = "random_resized_crop size=224; hflip"
        self.assertEqual(plans(ops, "500x375", 200), plans(ops, "500x375", 200))
        self.assertNotEqual(plans(ops, "500x375", 200), plans(ops, "500x375", 200, seed=1))

    def test_areas_ratios_and_places_are_uniform(self):
        n, bins, side = 20000, 20, 4000
        drawn = plans("random_resized_crop size=8 scale=0.2,0.4", f"{side}x{side}", n)
        areas, ratios, places = Counter(), Counter(), Counter()
        low, high = math.log(3 / 4), math.log(4 / 3)
        for p in drawn:
            x, y, w, h = p["crop"]
            area = w * h / side ** 2
            areas[min(bins - 1, max(0, int((area - 0.2) / 0.2 * bins)))] += 1
            ratios[min(bins - 1, max(0, int((math.log(w / h) - low) / (high - low) * bins)))] += 1
            places[min(bins - 1, int(x / (side - w + 1) * bins))] += 1
        for counts in (areas, ratios, places):
            # 19 degrees of freedom: above 50 in one of 7,000 honest runs
            self.assertLess(chi_square([counts[i] for i in range(bins)], [n / bins] * bins), 50)

    def test_flips_are_fair(self):
        n = 10000
        flips = sum(p["flip"][0] for p in plans("random_resized_crop size=8; hflip p=0.3",
                                                "100x100", n))
        self.assertLess(abs(flips - 0.3 * n), 5 * math.sqrt(n * 0.21))

    def test_fallback_is_the_centre(self):
        p = plans("random_resized_crop size=8 scale=1,1", "1000x10", 1)[0]
        self.assertEqual(p["crop"], [(1000 - 13) // 2, 0, 13, 10])

    def test_refusals_name_the_way_out(self):
        def refused(ops, output=""):
            r = subprocess.run([TOOL, "--plan-only", "1", "--size", "10x10", "--ops", ops,
                                "--output", output], capture_output=True, text=True)
            self.assertEqual(r.returncode, 1)
            return json.loads(r.stderr)

        self.assertIn("ragged", refused("resize 100")["hint"])
        self.assertIn("f16", refused("center_crop 8; normalize mean=0.5 std=0.5")["hint"])
        self.assertIn("order", refused("random_resized_crop 8; resize size=4,4")["hint"])
        self.assertIn("hflip", refused("hflop; center_crop 8")["hint"])
        self.assertIn("does not fit", refused("random_crop 11")["text"])


if __name__ == "__main__":
    unittest.main()
