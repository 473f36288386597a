"""Repacked PNG through the whole of Headrace: the same pixels as the files, the same samples and chunks back."""
import io
import os
import random
import struct
import subprocess
import unittest
import zlib

from feed import BIN, run
from packing import Packing

import numpy as np
from PIL import Image, PngImagePlugin

ASAN_BIN = os.environ.get("HEADRACE_ASAN_BIN", BIN)


def texture(w, h, channels, seed):
    """Smooth, with some grain."""
    shape = (h, w, channels) if channels > 1 else (h, w)
    y, x = np.mgrid[0:h, 0:w]
    smooth = np.stack([110 + 90 * np.sin(x / (20 + 3 * c) + y / 31 + c) for c in range(channels)], 2).reshape(shape)
    return (smooth + np.frombuffer(random.Random(seed).randbytes(w * h * channels), np.uint8).reshape(shape) % 40).astype(np.uint8)


def chunks(png):
    at = 8
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        yield kind, png[at + 8:at + 8 + length]
        at += 12 + length


def unpack(data):
    """A second reader, written from docs/formats/repacked-png.md: (samples, kept chunks)."""
    magic, w, h, colour, group_bytes, kept, before = struct.unpack_from("<4sIIB3xIII", data)
    assert magic == b"HRG1"
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    groups = -(-h // 16)
    sizes = struct.unpack_from(f"<{groups}I", data, 32)
    at = 32 + 4 * groups
    out = np.zeros((h, w, channels), np.uint8)
    blocks = -(-w // 32)
    for g, size in enumerate(sizes):
        end, above = at + size, np.zeros((channels, w), np.uint8)
        for y in range(g * 16, min(h, g * 16 + 16)):
            for c in range(channels):
                predictor, widths = data[at], data[at + 1:at + 1 + (blocks + 1) // 2]
                at += 1 + len(widths)
                values = []
                for b in range(blocks):
                    bits = widths[b // 2] >> (4 * (b % 2)) & 15
                    for _ in range(4):
                        fields = int.from_bytes(data[at:at + bits], "little")
                        at += bits
                        values += [fields >> (i * bits) & ((1 << bits) - 1) for i in range(8)]
                row, left, corner = np.zeros(w, np.uint8), 0, 0
                for x in range(w):
                    d = values[x] >> 1 ^ -(values[x] & 1)
                    up = int(above[c, x])
                    left = (d + (left if predictor & 1 else 0) + (up if predictor & 2 else 0)
                            - (corner if predictor == 3 else 0)) % 256
                    row[x], corner = left, up
                above[c] = row
            pixel = above.copy()
            if channels >= 3:
                pixel[0] += pixel[1]
                pixel[2] += pixel[1]
            out[y] = pixel.T
        assert at == end
    return out, data[at:]


class RepackedPng(Packing):
    def make_all(self):
        info = PngImagePlugin.PngInfo()
        info.add_text("Author", "someone")
        exif = Image.Exif()
        exif[0x112] = 6
        rgb = Image.fromarray(texture(131, 75, 3, 1))
        from test_icc import rgb_profile
        return [self.save("a.png", rgb, pnginfo=info, exif=exif, icc_profile=rgb_profile()),
                self.save("b.png", texture(64, 64, 1, 2)), self.save("c.png", texture(97, 33, 4, 3)),
                self.save("d.png", Image.fromarray(np.dstack([texture(50, 40, 1, 4), texture(50, 40, 1, 5)]), "LA")),
                self.save("e.png", rgb.quantize(250), transparency=3), self.save("f.png", texture(61, 300, 3, 6)),
                self.save("g.png", texture(300, 17, 3, 7))]

    def test_nothing_is_repacked_unless_asked(self):
        path = self.save("a.png", texture(64, 64, 3, 1))
        self.assertEqual(self.pack()["png_repacked"], 0)
        self.assertEqual(self.extract("a.png"), path.read_bytes())

    def test_pixels_are_those_of_the_files(self):
        names = self.make_all()
        told = self.pack("--png", "repack")
        self.assertEqual((told["png_repacked"], told["png_kept"]), (len(names), 0))
        self.pack(dst="files")
        crop = [{"random_resized_crop": {"size": 24}}, {"hflip": {}}]
        for ops, output, field in [((), None, {}), (crop, {"dtype": "u8"}, {}), (crop, {"dtype": "f16"}, {}),
                                   ((), {"ragged": True, "channels": "gray"}, {}), ((), None, {"icc": "srgb"}),
                                   ([{"random_crop": {"size": 20, "pad_if_needed": True}}], {"dtype": "u8"}, {})]:
            for path, a, b in zip(names, self.loaded("ds", ops, output, **field), self.loaded("files", ops, output, **field)):
                self.assertTrue(np.array_equal(a, b), (path.name, ops, output, field))

    def test_samples_and_chunks_come_back(self):
        self.make_all()
        self.pack("--png", "repack")
        for path in sorted(self.source.glob("*.png")):
            back, file = self.extract(path.name), path.read_bytes()
            with Image.open(io.BytesIO(back)) as a, Image.open(path) as b:
                a.load()
                b.load()
                self.assertEqual((a.mode, a.size, a.info), (b.mode, b.size, b.info))
                self.assertTrue(np.array_equal(np.asarray(a), np.asarray(b)), path.name)
            self.assertEqual([c for c in chunks(back) if c[0] != b"IDAT"], [c for c in chunks(file) if c[0] != b"IDAT"])
            at = 8
            while at < len(back):
                end = at + 8 + int.from_bytes(back[at:at + 4], "big")
                self.assertEqual(zlib.crc32(back[at + 4:end]), int.from_bytes(back[end:end + 4], "big"))
                at = end + 4

    def test_the_stored_bytes_are_as_the_page_says(self):
        self.make_all()
        self.pack("--png", "repack")
        for path in sorted(self.source.glob("*.png")):
            samples, kept = unpack(self.extract(path.name, "ds", "--raw"))
            with Image.open(path) as image:
                want = np.asarray(image)
            self.assertTrue(np.array_equal(samples.reshape(want.shape), want), path.name)
            self.assertEqual(kept, b"".join(struct.pack(">I", len(body)) + kind + body
                                            + struct.pack(">I", zlib.crc32(kind + body))
                                            for kind, body in chunks(path.read_bytes())
                                            if kind not in (b"IHDR", b"IDAT", b"IEND")))

    def test_what_is_not_repacked_is_kept_as_it_is(self):
        rgb = Image.fromarray(texture(90, 60, 3, 1))
        names = [self.save("bits.png", rgb.convert("1")), self.save("deep.png", Image.fromarray(
                     texture(40, 30, 1, 1).astype(np.uint16) * 257)),
                 self.save("flat.png", Image.new("RGB", (800, 600), "white"))]
        told = self.pack("--png", "repack")
        self.assertEqual((told["png_repacked"], told["png_kept"]), (0, len(names)))
        for path in names:
            self.assertEqual(self.extract(path.name), path.read_bytes())

    def test_threads_and_damage(self):
        self.make_all()
        one, four = self.pack("--png", "repack", "-j1"), self.pack("--png", "repack", "-j4", dst="four")
        self.assertEqual(one["digest"], four["digest"])
        self.assertIn("png=repack", run("inspect", self.folder / "ds").stdout)
        subprocess.run([ASAN_BIN, "pack", self.source, self.folder / "asan", "--png", "repack"], check=True,
                       capture_output=True)
        for key in ("a.png", "e.png", "f.png"):
            subprocess.run([ASAN_BIN, "inspect", self.folder / "asan", key, "--extract", "image", "--out",
                            self.folder / "x"], check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
