"""Smaller pictures at pack (--resize-short, --max-side) and pictures stored as their pixels (--store raw)."""
import io
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from feed import BIN, run
from packing import Packing
from pictures import resize, worst

import numpy as np
from PIL import Image, JpegImagePlugin

ASAN_BIN = os.environ.get("HEADRACE_ASAN_BIN", BIN)


def texture(w, h, seed):
    """Like a photograph: smooth, with some grain."""
    noise = random.Random(seed).randbytes(24 * 18 * 3)
    coarse = Image.frombytes("RGB", (24, 18), noise).resize((w, h), Image.Resampling.BICUBIC)
    grain = np.frombuffer(random.Random(seed + 1).randbytes(w * h * 3), np.uint8).reshape(h, w, 3) % 16
    return Image.fromarray((np.asarray(coarse) // 8 * 7 + grain).astype(np.uint8))


def rgb(data):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


class Tiers(Packing):
    def facts(self, key, dst="ds"):
        return json.loads(run("inspect", self.folder / dst, key, "--json").stdout)["fields"]["image"]

    # ---- smaller files ----

    def test_sizes_and_quality_of_the_files_made(self):
        """Pillow's LANCZOS to the size that torchvision's Resize has, and libjpeg's quality 90 without subsampling."""
        image = texture(401, 300, 1)
        path = self.save("a.jpg", image, quality=95)
        decoded = np.asarray(Image.open(path))
        for option, size in [(("--resize-short", 128), (171, 128)), (("--max-side", 200), (200, 149))]:
            for how in ("keep", "repack"):
                shutil.rmtree(self.folder / "ds", ignore_errors=True)
                told = self.pack(*option, f"--jpeg={how}")
                self.assertEqual((told["resized"], told["jpeg_repacked"]), (1, int(how == "repack")))
                data = self.extract("a.jpg")
                want = io.BytesIO()
                small = Image.fromarray(resize(decoded, *size, Image.Resampling.LANCZOS))
                small.save(want, "JPEG", quality=90, subsampling=0)
                with Image.open(io.BytesIO(data)) as got, Image.open(want) as same:
                    self.assertEqual(got.size, size)
                    self.assertEqual(JpegImagePlugin.get_sampling(got), 0)
                    self.assertEqual(got.quantization, same.quantization)
                    # the resizes may differ by 1, which a quantizer can make a few
                    self.assertLess(np.abs(np.asarray(got).astype(int) - np.asarray(same)).mean(), 0.3)
        self.assertTrue(np.array_equal(self.loaded()[0], rgb(data)))
        self.pack("--resize-short", 128, "--quality", 40, dst="rough")
        self.assertLess(len(self.extract("a.jpg", "rough")), len(data) / 2)

    def test_small_ones_stay_byte_for_byte(self):
        names = [self.save("a.jpg", texture(200, 128, 1), quality=80), self.save("b.png", texture(128, 90, 2)),
                 self.save("c.webp", texture(127, 300, 3), quality=60)]
        told = self.pack("--resize-short", 128)
        self.assertEqual((told["resized"], told["not_resized"]), (0, 0))
        for path in names:
            self.assertEqual(self.extract(path.name), path.read_bytes())

    def test_masks_and_other_than_truecolour_keep_their_size(self):
        image = texture(300, 260, 1)
        kept = [self.save("mask.png", image.quantize(20)), self.save("gray.png", image.convert("L")),
                self.save("a.gif", image.quantize(64)), self.save("bits.png", image.convert("1")),
                self.save("p.bmp", image.quantize(64)), self.save("gray.tif", image.convert("L"))]
        made = [self.save("rgb.png", image), self.save("rgba.png", image.convert("RGBA")), self.save("rgb.bmp", image),
                self.save("rgb.tif", image), self.save("a.webp", image), self.save("gray.jpg", image.convert("L"))]
        told = self.pack("--max-side", 100)
        self.assertEqual((told["resized"], told["not_resized"]), (len(made), len(kept)))
        for path in kept:
            self.assertEqual(self.extract(path.name), path.read_bytes())
        for path in made:
            facts = self.facts(path.name)
            self.assertEqual((facts["format"], facts["width"], facts["height"]), ("jpeg", 100, 86), path.name)
        with Image.open(io.BytesIO(self.extract("gray.jpg"))) as gray:
            self.assertEqual(gray.mode, "L")

    def test_orientation_and_profile_go_along(self):
        icc = self.profile()
        exif = Image.Exif()
        exif[0x112], exif[0x10f] = 6, "a camera"
        self.save("a.jpg", texture(320, 200, 1), exif=exif, icc_profile=icc)
        self.save("b.jpg", texture(320, 200, 1).convert("CMYK"), icc_profile=icc)
        self.pack("--resize-short", 100)
        with Image.open(io.BytesIO(self.extract("a.jpg"))) as small:
            self.assertEqual((small.size, small.getexif()[0x112], small.info["icc_profile"]), ((160, 100), 6, icc))
            self.assertEqual(dict(small.getexif()), {0x112: 6})
        with Image.open(io.BytesIO(self.extract("b.jpg"))) as small:
            self.assertEqual((small.mode, small.info.get("icc_profile")), ("RGB", None))
        self.assertEqual(self.loaded()[0].shape, (160, 100, 3))

    def test_a_profile_too_large_to_be_read_stays_behind(self):
        image = texture(50, 40, 1)
        path = self.save("a.webp", image, lossless=True, icc_profile=self.profile() + bytes(5 << 20))
        self.pack("--store", "raw")
        self.assertTrue(np.array_equal(self.loaded()[0], rgb(path.read_bytes())))
        self.pack("--resize-short", 20, dst="small")
        with Image.open(io.BytesIO(self.extract("a.webp", "small"))) as small:
            self.assertIsNone(small.info.get("icc_profile"))

    def test_pixels_have_no_original(self):
        self.save("a.jpg", texture(50, 40, 1))
        for options, kept in ((("--store", "raw"), False), ((), True)):
            self.pack(*options, dst=f"ds{kept}")
            shown = run("inspect", self.folder / f"ds{kept}", 0).stdout
            self.assertEqual("(original " in shown, kept, shown)

    @staticmethod
    def profile():
        from test_icc import rgb_profile
        return rgb_profile(padding=70000)

    def test_damaged_pictures_are_rejected_where_they_are_made_anew(self):
        data = self.save("a.jpg", texture(300, 200, 1)).read_bytes()
        self.save("b.jpg", texture(300, 200, 2))
        (self.source / "a.jpg").write_bytes(data[:len(data) * 2 // 3])
        told = self.pack("--resize-short", 64)
        self.assertEqual((told["records"], told["rejected"]), (1, 1))
        self.assertIn("HR_E_TRUNCATED", (self.folder / "ds/rejects.jsonl").read_text())

    def test_wrong_combinations_are_refused(self):
        self.save("a.jpg", texture(30, 20, 1))
        for options, words in [(("--quality", 80), "stay as they are"),
                               (("--resize-short", 9, "--max-side", 9), "one of them"),
                               (("--resize-short", 9, "--store", "raw", "--quality", 80), "without loss"),
                               (("--resize-short", 0), "resize-short"), (("--store", "pixels"), "raw")]:
            r = run("pack", self.source, self.folder / "ds", *options, code=2)
            self.assertIn(words, r.stderr)
            self.assertFalse((self.folder / "ds").exists())

    # ---- pixels ----

    def test_pixels_are_those_of_the_files(self):
        exif = Image.Exif()
        exif[0x112] = 5
        image = texture(131, 97, 1)
        icc = self.profile()
        names = [self.save("a.jpg", image, exif=exif), self.save("b.jpg", image.convert("L")),
                 self.save("c.png", image.convert("RGBA")), self.save("d.png", image.quantize(30)),
                 self.save("e.png", image, icc_profile=icc), self.save("f.webp", image),
                 self.save("g.gif", image.quantize(64)), self.save("h.tif", image), self.save("i.jpg", image.convert("CMYK"))]
        told = self.pack("--store", "raw")
        self.pack("--jpeg", "keep", dst="files")
        self.assertEqual((told["raw"], told["jpeg_repacked"], told["jpeg_kept"]), (len(names), 0, 0))
        crop = [{"random_resized_crop": {"size": 48}}, {"hflip": {}}]
        for ops, output, field in [((), None, {}), (crop, {"dtype": "u8"}, {}), (crop, {"dtype": "f32"}, {}),
                                   ((), {"ragged": True, "channels": "gray"}, {}), ((), None, {"icc": "srgb"}),
                                   ((), None, {"exif": "ignore"})]:
            for path, raw, file in zip(names, self.loaded("ds", ops, output, **field),
                                       self.loaded("files", ops, output, **field)):
                self.assertTrue(np.array_equal(raw, file), (path.name, ops, output, field))
        facts = self.facts("b.jpg")
        self.assertEqual((facts["encoding"], facts["format"], facts["channels"]), ("raw-pixels", "jpeg", 1))
        self.assertEqual(facts["bytes"], 32 + 131 * 97)

    def test_extract_gives_a_png_of_the_pixels(self):
        image = texture(131, 97, 1)
        icc = self.profile()
        self.save("a.jpg", image, icc_profile=icc)
        self.save("b.png", image.convert("L"))
        self.pack("--store", "raw")
        with Image.open(io.BytesIO(self.extract("a.jpg"))) as png, Image.open(self.source / "a.jpg") as jpeg:
            self.assertEqual((png.format, png.info["icc_profile"]), ("PNG", icc))
            self.assertTrue(np.array_equal(np.asarray(png), np.asarray(jpeg)))
        with Image.open(io.BytesIO(self.extract("b.png"))) as png:
            self.assertEqual(png.mode, "L")
            self.assertTrue(np.array_equal(np.asarray(png), np.asarray(image.convert("L"))))

    def test_the_stored_bytes_are_as_the_page_says(self):
        image = texture(21, 13, 1)
        self.save("a.png", image)
        self.pack("--store", "raw")
        out = self.folder / "out"
        run("inspect", self.folder / "ds", 0, "--extract", "image", "--raw", "--out", out)
        header = b"HRP1" + (21).to_bytes(4, "little") + (13).to_bytes(4, "little") + (3).to_bytes(4, "little") + bytes(16)
        self.assertEqual(out.read_bytes(), header + image.tobytes())

    def test_smaller_and_raw(self):
        image = texture(300, 200, 1)
        self.save("a.png", image)
        self.save("b.png", image.quantize(9))
        told = self.pack("--store", "raw", "--resize-short", 100)
        self.assertEqual((told["resized"], told["not_resized"], told["raw"]), (1, 1, 2))
        a, b = self.loaded()
        self.assertLessEqual(worst(a, resize(np.asarray(image), 150, 100, Image.Resampling.LANCZOS)), 1)
        self.assertTrue(np.array_equal(b, np.asarray(image.quantize(9).convert("RGB"))))

    # ---- the run ----

    def test_same_bytes_whatever_the_threads_and_after_a_kill(self):
        for i in range(60):
            self.save(f"{i:02}.jpg", texture(160 + i, 140, i), quality=90)
        for options in [("--resize-short", 100), ("--store", "raw", "--max-side", 120)]:
            name = options[0].strip("-")
            options += ("--shard-size", 200_000)
            one = self.pack(*options, "--jobs", 1, dst=name + "1")
            four = self.pack(*options, "--jobs", 4, dst=name + "4")
            self.assertEqual(one["digest"], four["digest"])
            self.assertGreater(one["shards"], 1)
            dst = self.folder / (name + "k")
            p = subprocess.Popen([BIN, "pack", self.source, dst, "-j1", *map(str, options)], stderr=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL)
            while p.poll() is None and not list(dst.glob("data-00000.hrs")):
                time.sleep(0.002)
            p.send_signal(signal.SIGKILL)
            killed = p.wait() == -signal.SIGKILL
            again = self.pack(*options, "--resume", dst=name + "k")
            self.assertEqual(again["digest"], one["digest"], f"killed: {killed}")
            self.assertEqual((again["resized"], again["raw"]), (one["resized"], one["raw"]) if killed else (0, 0))
            other = run("pack", self.source, self.folder / (name + "1"), "--append", "--dry-run", *map(str, options))
            self.assertEqual(other.returncode, 0)
        text = run("inspect", self.folder / "store1").stdout
        self.assertIn("max-side=120 store=raw", text)

    def test_every_kind_under_sanitizers(self):
        image = texture(120, 90, 1)
        for name in ("a.jpg", "b.png", "c.webp", "d.tif", "e.bmp"):
            self.save(name, image)
        self.save("f.gif", image.quantize(30))
        self.save("g.jpg", image.convert("L"), icc_profile=self.profile())
        for i, options in enumerate([("--max-side", 50), ("--store", "raw"), ("--store", "raw", "--max-side", 50)]):
            dst = self.folder / f"s{i}"
            subprocess.run([ASAN_BIN, "pack", self.source, dst, *map(str, options)], check=True, capture_output=True)
            for key in ("a.jpg", "f.gif", "g.jpg"):
                subprocess.run([ASAN_BIN, "inspect", dst, key, "--extract", "image", "--out", self.folder / "x"],
                               check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
