"""`icc: srgb` against Pillow's ImageCms: profiles of every format that carries them, in one part and in many."""
import ctypes
import struct
import subprocess
import unittest
from io import BytesIO

from pictures import SHARED, TOOL, Folder, run, whole, worst

import numpy as np
from PIL import Image, ImageCms, features

SRGB = ImageCms.createProfile("sRGB")


# ---- profiles written by hand (ICC.1:2001-04) ----


def s15(*values):
    return b"".join(struct.pack(">i", round(v * 65536)) for v in values)


def xyz(*values):
    return b"XYZ \0\0\0\0" + s15(*values)


def gamma(g):
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(g * 256))


def profile(space, tags, pcs=b"XYZ ", kind=b"mntr"):
    tags = dict(tags, desc=b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + bytes(78), wtpt=xyz(0.9642, 1, 0.8249),
                cprt=b"text\0\0\0\0none\0")
    table, body, at = b"", b"", 132 + 12 * len(tags)
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += struct.pack(">4sII", name.encode(), at + len(body), len(data))
        body += data
    head = struct.pack(">I4sI4s4s4s12s4s4sIIIIII", at + len(body), b"none", 0x02400000, kind, space, pcs, bytes(12),
                       b"acsp", bytes(4), 0, 0, 0, 0, 0, 0) + s15(0.9642, 1, 0.8249)
    return head + bytes(128 - len(head)) + struct.pack(">I", len(tags)) + table + body


def rgb_profile(g=1.8, swap=False, padding=0):
    red, green = (0.6097, 0.3111, 0.0195), (0.2053, 0.6257, 0.0609)  # Adobe RGB's, in D50
    if swap:
        red, green = green, red
    tags = {"rXYZ": xyz(*red), "gXYZ": xyz(*green), "bXYZ": xyz(0.1492, 0.0632, 0.7446), "rTRC": gamma(g),
            "gTRC": gamma(g), "bTRC": gamma(g)}
    if padding:
        tags["junk"] = b"data\0\0\0\0" + bytes(padding)
    return profile(b"RGB ", tags)


def cmyk_profile():
    """Two grid points an ink: lightness falls with C + M + Y + K, hue turns with C and M."""
    ramp = bytes(range(256))
    grid = b"".join(bytes((max(0, 255 - 50 * (c + m + y) - 100 * k), 128 - 60 * c + 50 * m, 128 - 40 * c + 60 * y))
                    for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1))
    lut = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + s15(1, 0, 0, 0, 1, 0, 0, 0, 1) + ramp * 4 + grid + ramp * 3
    return profile(b"CMYK", {"A2B0": lut}, b"Lab ", b"prtr")


# ---- pictures ----


def pattern(w, h):
    y, x = np.mgrid[0:h, 0:w]
    return np.stack([255 * x // (w - 1), 255 * y // (h - 1), 128 + 90 * np.sin(x / 23 + y / 17)], 2).astype(np.uint8)


def converted(path, icc):
    with Image.open(path) as image:
        image = image.convert("RGB") if image.mode in ("RGBA", "P") else image
        return np.asarray(ImageCms.profileToProfile(image, ImageCms.ImageCmsProfile(BytesIO(icc)), SRGB,
                                                    renderingIntent=0, outputMode="RGB"))


def system_lcms_of_ink(path, icc):
    """The same by the system's lcms2: versions differ by a few steps for tables of ink."""
    lcms = ctypes.CDLL("liblcms2.so.2")
    for name in ("cmsOpenProfileFromMem", "cmsCreate_sRGBProfile", "cmsCreateTransform"):
        getattr(lcms, name).restype = ctypes.c_void_p
    with Image.open(path) as image:
        ink = np.ascontiguousarray(np.asarray(image))
    source = ctypes.c_void_p(lcms.cmsOpenProfileFromMem(icc, len(icc)))
    target = ctypes.c_void_p(lcms.cmsCreate_sRGBProfile())
    cmyk_8, rgb_8 = 6 << 16 | 4 << 3 | 1, 4 << 16 | 3 << 3 | 1
    transform = ctypes.c_void_p(lcms.cmsCreateTransform(source, cmyk_8, target, rgb_8, 0, 0))
    out = np.empty(ink.shape[:2] + (3,), np.uint8)
    lcms.cmsDoTransform(transform, ink.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                        ink.shape[0] * ink.shape[1])
    return out


class Profiles(Folder):
    def save(self, name, image, icc, **options):
        path = self.folder / name
        image.save(path, icc_profile=icc, **options)
        return path

    def check(self, path, icc, *flags, most=1):
        got, told = whole(path, "icc=srgb", *flags)
        self.assertIsNotNone(got, told)
        self.assertLessEqual(worst(got, converted(path, icc)), most, (path.name, flags))
        plain, _ = whole(path, "", *flags)
        with Image.open(path) as image:
            self.assertLessEqual(worst(plain, np.asarray(image.convert("RGB"))), 0)
        self.assertGreater(worst(got, plain), 10, path.name)
        return got

    def test_every_format_that_carries_one(self):
        icc, image = rgb_profile(), Image.fromarray(pattern(90, 61))
        formats = [("a.jpg", {"quality": 95}), ("a.png", {}), ("a.webp", {"lossless": True}), ("a.tif", {})]
        for name, options in formats:
            self.check(self.save(name, image, icc, **options), icc)
        self.check(self.save("p.jpg", image, icc, progressive=True), icc)
        self.check(self.save("r.jpg", image, icc), icc, "--repack")
        self.check(self.folder / "p.jpg", icc, "--repack")
        self.check(self.save("p.png", image.quantize(200), icc), icc)
        self.check(self.save("a.png", image.convert("RGBA"), icc), icc)
        if features.check("avif"):
            # The transform is the same; the pixels before it are not quite.
            path = self.save("a.avif", image, icc, quality=100, subsampling="4:4:4")
            got, told = whole(path, "icc=srgb")
            self.assertIsNotNone(got, told)
            self.assertLess(np.abs(got.astype(int) - converted(path, icc)).mean(), 0.6)

    def test_profiles_in_many_parts(self):
        icc = rgb_profile(padding=200_000)
        path = self.save("a.jpg", Image.fromarray(pattern(90, 61)), icc)
        data = path.read_bytes()
        self.assertGreater(data.count(b"ICC_PROFILE\0"), 3)
        self.check(path, icc)
        self.check(path, icc, "--repack")
        # the order of the parts does not matter, a missing one does
        at = data.index(b"\xff\xe2")
        parts, end = [], at
        while data[end:end + 2] == b"\xff\xe2":
            length = 2 + int.from_bytes(data[end + 2:end + 4], "big")
            parts.append(data[end:end + length])
            end += length
        path.write_bytes(data[:at] + b"".join(reversed(parts)) + data[end:])
        self.check(path, icc)
        path.write_bytes(data[:at] + b"".join(parts[1:]) + data[end:])
        got, told = whole(path, "icc=srgb")
        self.assertEqual((got, told["error"]), (None, "HR_E_DECODE"))
        self.assertIsNotNone(whole(path)[0])

    def test_gray_and_cmyk(self):
        image = Image.fromarray(pattern(90, 61))
        icc = profile(b"GRAY", {"kTRC": gamma(1.2)})
        for name in ("a.jpg", "a.png", "a.tif"):
            self.check(self.save(name, image.convert("L"), icc), icc)
        self.check(self.save("r.jpg", image.convert("L"), icc), icc, "--repack")
        icc = cmyk_profile()
        cmyk = Image.fromarray(np.dstack([pattern(90, 61), pattern(90, 61)[..., ::-1].sum(2, dtype=int) // 6])
                               .astype(np.uint8), "CMYK")
        path = self.save("c.jpg", cmyk, icc, quality=100)
        got, told = whole(path, "icc=srgb")
        self.assertIsNotNone(got, told)
        self.assertLessEqual(worst(got, system_lcms_of_ink(path, icc)), 1)
        self.assertGreater(worst(got, whole(path)[0]), 20)
        self.assertTrue(np.array_equal(whole(path, "icc=srgb", "--repack")[0], got))

    def test_what_does_not_fit_or_changes_nothing_is_left_out(self):
        image = Image.fromarray(pattern(90, 61))
        for icc, picture in [(ImageCms.ImageCmsProfile(SRGB).tobytes(), image),
                             (profile(b"GRAY", {"kTRC": gamma(1.2)}), image), (cmyk_profile(), image),
                             (rgb_profile(), image.convert("CMYK"))]:
            path = self.save("a.jpg", picture, icc)
            self.assertTrue(np.array_equal(whole(path, "icc=srgb")[0], whole(path)[0]))
        path = self.save("a.jpg", image, b"no profile at all")
        self.assertEqual(whole(path, "icc=srgb")[1]["error"], "HR_E_DECODE")
        self.assertIsNotNone(whole(path, "icc=ignore")[0])

    def test_regions_gray_output_and_turns(self):
        """Rows are converted before anything else is done to them."""
        icc = rgb_profile(swap=True)
        path = self.save("a.png", Image.fromarray(pattern(120, 80)), icc)
        want = converted(path, icc)
        got, plan = run(path, "random_crop 50; hflip p=1", options="icc=srgb", position=3)
        x, y, w, h = plan["crop"]
        self.assertLessEqual(worst(got, want[y:y + h, x:x + w][:, ::-1]), 1)
        got, _ = run(path, "", "ragged=true channels=gray", "icc=srgb")
        gray = np.asarray(Image.fromarray(want).convert("L"))
        self.assertLessEqual(worst(got[..., 0], gray), 1)
        exif = Image.Exif()
        exif[0x112] = 6
        path = self.save("b.png", Image.fromarray(pattern(120, 80)), icc, exif=exif)
        got, _ = whole(path, "icc=srgb")
        self.assertLessEqual(worst(got, np.rot90(want, -1)), 1)

    @unittest.skipUnless(SHARED, "no shared cases (set HR_SHARED)")
    def test_cases_with_profiles(self):
        seen = 0
        for path in sorted((SHARED / "cases").glob("*/img/*")):
            try:
                with Image.open(path) as image:
                    icc = image.info.get("icc_profile")
                    mode = image.mode
            except Exception:
                continue
            if icc and mode in ("L", "RGB") and path.suffix != ".avif" and whole(path)[0] is not None:
                got, told = whole(path, "icc=srgb")
                if len(icc) < 128:  # that is no profile
                    self.assertEqual(told.get("error"), "HR_E_DECODE", path.name)
                    continue
                self.assertIsNotNone(got, (path.name, told))
                if ImageCms.ImageCmsProfile(BytesIO(icc)).profile.xcolor_space.strip() == "RGB" and mode == "RGB":
                    self.assertLessEqual(worst(got, converted(path, icc)), 1, path.name)
                seen += 1
        print(f"\n{seen} cases with profiles")

    def test_unknown_word_is_refused(self):
        r = subprocess.run([TOOL, "--plan-only", "1", "--size", "9x9", "--ops", "center_crop 8", "--options", "icc=p3"],
                           capture_output=True, text=True)
        self.assertEqual(r.returncode, 1)
        self.assertIn("srgb", r.stderr)


if __name__ == "__main__":
    unittest.main()
