"""headrace synth: made-up data is the same again, and is what it says it is."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import wave
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ.get("HEADRACE_BIN", str(ROOT / "build" / "tools" / "headrace"))
KINDS = ["images", "captions", "text", "speech", "video", "mixed"]
SHAPES = ["circle", "cross", "diamond", "hexagon", "ring", "square", "stripe", "triangle"]


class Synth(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="headrace-synth-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def synth(self, name, *args, code=0):
        r = subprocess.run([BIN, "synth", str(self.dir / name), "--json", *args], capture_output=True,
                           text=True, timeout=300)
        self.assertEqual(r.returncode, code, r.stderr)
        return json.loads(r.stdout) if code == 0 else r.stderr

    def folder(self, *args):
        self.synth("f", "--as", "folder", *args)
        return self.dir / "f"

    def test_same_seed_same_bytes_with_any_number_of_jobs(self):
        for kind in KINDS:
            with self.subTest(kind):
                n = "4" if kind in ("video", "mixed") else "20"
                made = [self.synth(f"{kind}{i}", "--kind", kind, "-n", n, "--seed", seed, "-j", jobs)
                        for i, (seed, jobs) in enumerate([("7", "1"), ("7", "3"), ("8", "1")])]
                self.assertEqual(made[0]["digest"], made[1]["digest"])
                self.assertNotEqual(made[0]["digest"], made[2]["digest"])
                self.assertEqual(made[0]["records"], int(n))

    def test_more_records_begin_with_the_same_ones(self):
        a = self.folder("--kind", "captions", "-n", "3")
        self.synth("g", "--as", "folder", "--kind", "captions", "-n", "6")
        for path in a.iterdir():
            self.assertEqual(path.read_bytes(), (self.dir / "g" / path.name).read_bytes())

    def test_folders_pack_to_as_many_records(self):
        for kind in KINDS:
            with self.subTest(kind):
                src = self.dir / kind
                self.synth(kind, "--as", "folder", "--kind", kind, "-n", "5")
                r = subprocess.run([BIN, "pack", str(src), str(src) + ".hrd", "--json"],
                                   capture_output=True, text=True, timeout=120)
                self.assertEqual(r.returncode, 0, r.stderr)
                got = json.loads(r.stdout)
                self.assertEqual((got["records"], got["rejected"], got["left_out"]), (5, 0, 0))

    def test_sizes_are_as_stated(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow here")
        sizes = []
        for path in sorted(self.folder("-n", "200").rglob("*.jpg")):
            with Image.open(path) as im:
                im.load()
                sizes.append(max(im.size))
        self.assertEqual(len(sizes), 200)
        logs = np.log(sizes)
        self.assertAlmostEqual(float(np.median(sizes)), 400, delta=35)
        self.assertAlmostEqual(float(logs.std()), 0.25, delta=0.05)

    def test_size_can_be_fixed(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow here")
        for path in self.folder("-n", "5", "--width", "320", "--height", "200").rglob("*.jpg"):
            with Image.open(path) as im:
                self.assertEqual(im.size, (320, 200))

    def test_captions_name_the_label(self):
        folder = self.folder("--kind", "mixed", "-n", "6", "--seconds", "0.5")
        for path in folder.glob("*.cls"):
            shape = SHAPES[int(path.read_text())]
            self.assertIn(shape, path.with_suffix(".caption").read_text())

    def test_text_is_around_200_bytes(self):
        lines = (self.folder("--kind", "text", "-n", "2000") / "text.jsonl").read_text().splitlines()
        sizes = [len(json.loads(line)["text"].encode()) for line in lines]
        self.assertAlmostEqual(float(np.median(sizes)), 200, delta=20)

    def test_speech_is_sound(self):
        for path in self.folder("--kind", "speech", "-n", "5").glob("*.wav"):
            with wave.open(str(path)) as w:
                self.assertEqual((w.getframerate(), w.getnchannels(), w.getsampwidth()), (16000, 1, 2))
                samples = np.frombuffer(w.readframes(w.getnframes()), "<i2").astype(float)
            self.assertGreater(samples.std(), 300)
            self.assertLess((abs(samples) >= 32000).mean(), 0.02)

    def test_destination_in_use(self):
        (self.dir / "x").mkdir()
        (self.dir / "x" / "thesis.tex").write_text("x")
        self.assertIn("not empty", self.synth("x", "-n", "1", code=2))
        self.assertIn("not an empty folder", self.synth("x", "-n", "1", "--as", "folder", code=2))
        self.assertEqual(os.listdir(self.dir / "x"), ["thesis.tex"])

    def test_wrong_options(self):
        self.assertIn("one of: images", self.synth("x", "--kind", "films", code=2))
        self.assertIn("must be from", self.synth("x", "-n", "0", code=2))


if __name__ == "__main__":
    unittest.main()
