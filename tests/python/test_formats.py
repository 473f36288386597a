"""Picture formats beside JPEG: AVIF grids and turns, EXIF orientation wherever it is carried, sizes that are
refused before anything is allocated. What is right comes from Pillow or from arithmetic."""
import struct
import subprocess
import unittest
import zlib

from pictures import SHARED, Folder, measure, whole, worst

import numpy as np
from PIL import Image, ImageOps, features


def pattern(w, h):
    """Smooth, without symmetry."""
    y, x = np.mgrid[0:h, 0:w]
    waves = 128 + 90 * np.sin(x / 23 + y / 17)
    return np.stack([255 * x // max(1, w - 1), 255 * y // max(1, h - 1), waves.astype(int)], 2).astype(np.uint8)


# ---- AVIF ----


def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def full(kind, version, flags, *parts):
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def obu(rgb):
    """AV1, lossless, as R, G, B without a matrix."""
    h, w = rgb.shape[:2]
    r = subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{w}x{h}", "-i", "-",
                        "-vf", "format=gbrp", "-c:v", "libaom-av1", "-aom-params", "lossless=1", "-cpu-used", "8",
                        "-f", "obu", "-"], input=rgb.tobytes(), capture_output=True)
    if r.returncode:
        raise unittest.SkipTest("ffmpeg has no AV1 encoder: " + r.stderr.decode()[-200:])
    return r.stdout


def avif(items, w, h, grid=None, turn=None, mirror=None, extra=b"", in_idat=False):
    """An AVIF of AV1 items, written by hand: item 1 is the picture, or the grid (rows, columns) of items 2 and up."""
    tw, th = (w, h) if not grid else (w // grid[1] + (w % grid[1] > 0), h // grid[0] + (h % grid[0] > 0))
    properties = [full(b"ispe", 0, 0, struct.pack(">II", w, h)), box(b"av1C", bytes([0x81, 0x20, 0, 0])),
                  full(b"ispe", 0, 0, struct.pack(">II", tw, th))]
    own = [1] if grid else [1, 2]
    if turn is not None:
        properties.append(box(b"irot", bytes([turn])))
        own.append(0x80 | len(properties))
    if mirror is not None:
        properties.append(box(b"imir", bytes([mirror])))
        own.append(0x80 | len(properties))
    if extra:
        properties.append(extra)
        own.append(0x80 | len(properties))
    links = [(1, own)] + [(i + 2, [3, 2]) for i in range(len(items))] * bool(grid)
    ipma = full(b"ipma", 0, 0, struct.pack(">I", len(links)),
                *[struct.pack(">HB", i, len(p)) + bytes(p) for i, p in links])
    wide = max(w, h) > 65535
    derived = struct.pack(">BBBBII" if wide else ">BBBBHH", 0, wide, grid[0] - 1, grid[1] - 1, w, h) if grid else b""
    kinds = [(1, b"grid")] + [(i + 2, b"av01") for i in range(len(items))] if grid else [(1, b"av01")]
    parts = [full(b"pitm", 0, 0, struct.pack(">H", 1)),
             full(b"iinf", 0, 0, struct.pack(">H", len(kinds)),
                  *[full(b"infe", 2, 0, struct.pack(">HH4sB", i, 0, k, 0)) for i, k in kinds]),
             box(b"iprp", box(b"ipco", *properties), ipma)]
    if grid:
        parts.append(full(b"iref", 0, 0, box(b"dimg", struct.pack(">HH", 1, len(items)),
                                             *[struct.pack(">H", i + 2) for i in range(len(items))])))
    head = box(b"ftyp", b"avif", bytes(4), b"avifmif1")
    stored = ([derived] if grid else []) + list(items)
    idat = b"".join(stored) if in_idat else derived

    def iloc(base):
        at, rows = base, b""
        for n, data in enumerate(stored):
            inside = in_idat or bool(grid and n == 0)
            off = sum(map(len, stored[:n])) if inside else at
            rows += struct.pack(">HHHHII", n + 1, int(inside), 0, 1, off, len(data))
            at += 0 if inside else len(data)
        return full(b"iloc", 1, 0, struct.pack(">HH", 0x4400, len(stored)), rows)

    def meta(base):
        return full(b"meta", 0, 0, *parts, iloc(base), box(b"idat", idat))

    data = b"" if in_idat else b"".join(items)
    return head + meta(len(head) + len(meta(0)) + 8) + box(b"mdat", data)


class Avif(Folder):
    def test_lossless_is_exact_from_mdat_and_idat(self):
        rgb = pattern(64, 48)
        data = obu(rgb)
        for in_idat in (False, True):
            got, told = whole(self.write("a.avif", avif([data], 64, 48, in_idat=in_idat)))
            self.assertIsNotNone(got, told)
            self.assertTrue(np.array_equal(got, rgb))

    def test_turns_and_mirrorings(self):
        """irot turns against the clock, then imir exchanges top and bottom (0) or left and right (1)."""
        rgb = pattern(48, 32)
        data = obu(rgb)
        for turn in (None, 0, 1, 2, 3):
            for mirror in (None, 0, 1):
                path = self.write("a.avif", avif([data], 48, 32, turn=turn, mirror=mirror))
                want = np.rot90(rgb, turn or 0)
                want = want if mirror is None else want[::-1] if mirror == 0 else want[:, ::-1]
                got, told = whole(path)
                self.assertIsNotNone(got, told)
                self.assertTrue(np.array_equal(got, want), (turn, mirror))
                stored, _ = whole(path, "exif=ignore")
                self.assertTrue(np.array_equal(stored, rgb))

    def test_grids_are_put_together(self):
        rgb = pattern(100, 90)
        padded = np.pad(rgb, ((0, 6), (0, 28), (0, 0)), "edge")
        tiles = [obu(np.ascontiguousarray(padded[y:y + 48, x:x + 64])) for y in (0, 48) for x in (0, 64)]
        data = avif(tiles, 100, 90, grid=(2, 2), turn=1)
        got, told = whole(self.write("a.avif", data))
        self.assertIsNotNone(got, told)
        self.assertTrue(np.array_equal(got, np.rot90(rgb)))
        # fewer tiles than the grid has, tiles that do not cover it
        for wrong in (avif(tiles[:3], 100, 90, grid=(2, 2)), avif(tiles, 140, 90, grid=(2, 2)),
                      avif(tiles, 60, 90, grid=(2, 2))):
            got, told = whole(self.write("b.avif", wrong))
            self.assertIsNone(got)
            self.assertEqual(told["error"], "HR_E_DECODE")

    def test_a_grid_of_a_shape_that_ffmpeg_refuses_is_the_pictures_fault(self):
        data = avif([obu(pattern(8192, 16))] * 256, 8192 * 256, 16, grid=(1, 256))
        got, told = whole(self.write("a.avif", data))
        self.assertIsNone(got)
        self.assertEqual(told["error"], "HR_E_LIMIT", told)  # HR_E_NOMEM would be this process's

    def test_cut_and_wrong_files_are_refused(self):
        data = avif([obu(pattern(64, 48))], 64, 48)
        for n in list(range(16, 400, 7)) + [len(data) * 2 // 3, len(data) - 1]:
            got, told = whole(self.write("a.avif", data[:n]))
            self.assertIsNone(got)
            self.assertIn(told["error"], ("HR_E_TRUNCATED", "HR_E_DECODE", "HR_E_FORMAT"), n)
        got, told = whole(self.write("a.avif", avif([obu(pattern(64, 48))], 64, 50)))
        self.assertEqual((got, told["error"]), (None, "HR_E_DECODE"))
        told = measure(self.write("a.avif", avif([b"x"], 60000, 60000)))
        self.assertEqual(told["error"], "HR_E_LIMIT")
        told = measure(self.write("a.avif", avif([b"x"], 60, 60, extra=box(b"lsel", bytes(2)))))
        self.assertEqual(told["error"], "HR_E_FORMAT")
        self.assertIn("lsel", told["text"])

    @unittest.skipUnless(features.check("avif"), "this Pillow has no AVIF")
    def test_against_pillow(self):
        """Lossy pictures: chroma is widened by another filter than libavif's; without it, all but equal."""
        image = Image.fromarray(pattern(160, 121))
        for mode, options, most in [("RGB", {"subsampling": "4:4:4"}, 2), ("RGB", {}, 12), ("RGBA", {}, 12),
                                    ("L", {}, 2), ("RGB", {"range": "limited", "subsampling": "4:4:4"}, 2)]:
            path = self.folder / "a.avif"
            image.convert(mode).save(path, quality=85, **options)
            with Image.open(path) as again:
                want = np.asarray(again.convert("RGB"))
            got, told = whole(path)
            self.assertIsNotNone(got, told)
            self.assertLessEqual(worst(got, want), most, (mode, options))

    @unittest.skipUnless(SHARED and features.check("avif"), "no shared cases (set HR_SHARED), or no AVIF in Pillow")
    def test_cases_are_turned_as_pillow_turns_them(self):
        for path in sorted((SHARED / "cases/fetched/img").glob("*.avif")):
            with Image.open(path) as image:
                want = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
            got, _ = whole(path)
            self.assertEqual(got.shape, want.shape, path.name)
            self.assertLess(np.abs(got.astype(int) - want).mean(), 1.2, path.name)


# ---- orientation ----


class Orientation(Folder):
    def test_every_format_that_carries_it(self):
        image = Image.fromarray(pattern(60, 44))
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x112] = orientation
            for name, options in [("a.jpg", {"quality": 95}), ("a.png", {}), ("a.webp", {"lossless": True}),
                                  ("a.tif", {})]:
                path = self.folder / name
                image.save(path, exif=exif, **options)
                with Image.open(path) as again:
                    want = np.asarray(ImageOps.exif_transpose(again).convert("RGB"))
                got, told = whole(path)
                self.assertIsNotNone(got, told)
                self.assertEqual(measure(path)["orientation"], orientation, name)
                self.assertTrue(np.array_equal(got, want), (name, orientation))


# ---- samples ----


class Samples(Folder):
    def test_16_bits_keep_the_high_byte(self):
        values = np.array([[0, 255, 256, 257, 32767, 32768, 65279, 65535]], np.uint16)
        for name in ("a.png", "a.tif"):
            path = self.folder / name
            Image.fromarray(values).save(path)
            got, told = whole(path)
            self.assertIsNotNone(got, told)
            self.assertTrue(np.array_equal(got[0, :, 0], values[0] >> 8), name)

    def test_alpha_is_dropped_not_blended(self):
        rgba = np.dstack([pattern(20, 10), np.arange(200, dtype=np.uint8).reshape(10, 20)])
        for name, options in [("a.png", {}), ("a.webp", {"lossless": True, "exact": True}), ("a.tif", {}),
                              ("a.bmp", {})]:
            path = self.folder / name
            Image.fromarray(rgba).save(path, **options)
            got, told = whole(path)
            self.assertIsNotNone(got, told)
            self.assertTrue(np.array_equal(got, rgba[..., :3]), name)

    def test_cmyk_jpegs_are_inverted(self):
        """JPEG stores 255 - ink; R = max(0, K - round((255 - C) K / 255)) of the stored values."""
        cmyk = np.zeros((16, 16, 4), np.uint8)
        cmyk[:] = (40, 90, 200, 30)
        path = self.folder / "a.jpg"
        Image.fromarray(cmyk, "CMYK").save(path, quality=100)
        got, _ = whole(path)
        with Image.open(path) as again:
            stored = 255 - np.asarray(again).astype(int)  # Pillow turns Adobe's values back into ink
        k = stored[..., 3:]
        want = np.maximum(0, k - np.floor((255 - stored[..., :3]) * k / 255 + 0.5).astype(int))
        self.assertLessEqual(worst(got, want), 0)


# ---- limits ----


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class Limits(Folder):
    def test_too_many_pixels_are_refused_at_the_header(self):
        w, h = 20000, 9000  # 180 million
        tags = [(256, 4, w), (257, 4, h), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1), (278, 4, h),
                (279, 4, 10)]
        tiff = struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + b"".join(
            struct.pack("<HHII", tag, kind, 1, v) for tag, kind, v in tags) + bytes(4)
        bmp = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 0, 0, 54, 40, w, h, 1, 24, 0, 0, 0, 0, 0, 0)
        gif = struct.pack("<6sHHBBB", b"GIF89a", w, h, 0, 0, 0) + b"," + struct.pack("<HHHHBB", 0, 0, w, h, 0, 8) + \
            b"\1\0\0"
        png = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + \
            png_chunk(b"IDAT", zlib.compress(b"")) + png_chunk(b"IEND", b"")
        webp_bits = 16383 | 16383 << 14
        webp = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8L" + struct.pack("<IBI", 10, 0x2F, webp_bits) + bytes(5)
        jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08" + struct.pack(">HH", h, w) + b"\1\1\x11\0" + \
            b"\xff\xda\0\x08\1\1\0\0\x3f\0"
        for name, data in [("tif", tiff), ("bmp", bmp), ("gif", gif), ("png", png), ("webp", webp), ("jpg", jpeg)]:
            told = measure(self.write("a." + name, data))
            self.assertEqual(told.get("error"), "HR_E_LIMIT", (name, told))


if __name__ == "__main__":
    unittest.main()
