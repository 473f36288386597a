"""Progressive and CMYK files of other writers, repacked: Pillow's in every sampling, with restarts and profiles, and
mozjpeg's own progressions. The file comes back, and every region has the pixels of the file as it is."""
import io
import json
import os
import subprocess

import numpy as np
from PIL import Image

from pictures import SHARED, Folder, run

BIN = os.environ["HEADRACE_BIN"]


def picture(w, h, mode="RGB", seed=0):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    channels = len(mode) if mode != "L" else 1
    planes = [128 + 90 * np.sin((x + 3 * c) / 9 + y / (5 + c)) + rng.normal(0, 12, (h, w)) for c in range(channels)]
    pixels = np.clip(np.stack(planes, 2), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode)


class Scans(Folder):
    def save(self, name, image, **options):
        out = io.BytesIO()
        image.save(out, "JPEG", **options)
        return self.write(name, out.getvalue())

    def repack(self, paths):
        """headrace rjpeg compares the restored files itself."""
        done = subprocess.run([BIN, "rjpeg", "--json", "-n", "1", *map(str, paths)], capture_output=True, text=True)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0, [f for f in report["files"] if "error" in f])
        return report

    def check_pixels(self, path):
        for ops, output in (("", "ragged=true"), ("random_crop 21", "dtype=u8"),
                            ("random_resized_crop size=24", "dtype=f16 layout=nchw")):
            plain, told = run(path, ops, output)
            self.assertIsNotNone(plain, told)
            again, told = run(path, ops, output, "", "--repack")
            self.assertIsNotNone(again, told)
            self.assertTrue(np.array_equal(plain, again), (path.name, ops))

    def test_pillows_progressions(self):
        paths = []
        for i, (w, h) in enumerate([(1, 1), (33, 26), (64, 64), (131, 97), (200, 23)]):
            for mode, sampling in [("L", 0), ("RGB", 0), ("RGB", 1), ("RGB", 2), ("CMYK", 0)]:
                options = {"restart_marker_blocks": 3} if i == 1 else {"restart_marker_rows": 1} if i == 3 else {}
                if mode == "RGB":
                    options["subsampling"] = sampling
                paths.append(self.save(f"{i}-{mode}{sampling}.jpg", picture(w, h, mode, i), progressive=True,
                                       quality=35 + 15 * i, **options))
        report = self.repack(paths)
        self.assertEqual((report["total"]["progressive"], report["total"]["cmyk"]), (25, 5))
        for path in paths[5:]:
            with Image.open(path) as image:
                if image.width > 30:
                    self.check_pixels(path)

    def test_cmyk(self):
        paths = [self.save(f"{q}.jpg", picture(101, 45, "CMYK", q), quality=q) for q in (20, 75, 100)]
        self.assertEqual(self.repack(paths)["total"]["cmyk"], 3)
        for path in paths:
            self.check_pixels(path)

    def test_mozjpegs_progressions(self):
        try:
            import mozjpeg_lossless_optimization as mozjpeg
        except ImportError:
            self.skipTest("mozjpeg_lossless_optimization is not installed")
        sources = sorted((SHARED / "data/images").glob("*/*.jpg"))[::40] if SHARED else []
        made = [f.read_bytes() for f in sources]
        made += [self.save("source.jpg", picture(90, 70, mode), quality=90).read_bytes() for mode in ("L", "RGB")]
        paths = [self.write(f"{i}.jpg", mozjpeg.optimize(data)) for i, data in enumerate(made)]
        self.assertEqual(self.repack(paths)["total"]["progressive"], len(paths))

    def test_the_kind_is_told(self):
        path = self.save("a.jpg", picture(40, 40, "CMYK"), progressive=True)
        done = subprocess.run([BIN, "rjpeg", str(path)], capture_output=True, text=True, check=True)
        self.assertTrue(done.stdout.endswith("us, progressive, cmyk\n"), done.stdout)
        done = subprocess.run([BIN, "pack", str(self.folder), str(self.folder / "out")], capture_output=True, text=True)
        self.assertIn("1 JPEG picture repacked (1 progressive, 1 cmyk; ", done.stdout)
        shown = [subprocess.run([BIN, "inspect", str(self.folder / "out"), "0", *flags], capture_output=True, text=True,
                                check=True).stdout for flags in ((), ("--json",))]
        self.assertIn("repacked-jpeg (original", shown[0])
        self.assertIn(" bytes), progressive, ", shown[0])
        self.assertTrue(json.loads(shown[1])["fields"]["image"]["progressive"])

    def test_an_unfinished_progression_is_kept(self):
        data = self.save("a.jpg", picture(40, 40), progressive=True).read_bytes()
        self.write("a.jpg", data[:data.rindex(b"\xff\xda")] + b"\xff\xd9")
        done = subprocess.run([BIN, "pack", str(self.folder), str(self.folder / "out"), "--json"],
                              capture_output=True, text=True)
        report = json.loads(done.stdout)
        self.assertEqual((report["jpeg_repacked"], report["jpeg_kept_because"]["progressive"]), (0, 1))
