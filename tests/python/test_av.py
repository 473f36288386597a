"""Audio and video against the ffmpeg program and against arithmetic: samples and counts, frames in
order and picked, clips, rules for time, colours."""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build")) / "tests" / "unit" / "av_tool"
DTYPES = {"u8": np.uint8, "i16": np.int16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32}


def find_shared():
    for place in [os.environ.get("HR_SHARED"), ROOT.parent / "shared", ROOT.parent.parent / "shared"]:
        if place and (Path(place) / "cases").is_dir():
            return Path(place)
    return None


SHARED = find_shared()


def tool(*args):
    r = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert r.returncode in (0, 1), (args, r.returncode, r.stderr[-2000:])
    return json.loads(r.stdout)


def raw(*args):
    return subprocess.run([TOOL, *map(str, args)], capture_output=True, timeout=300)


def ffmpeg(path, *args, before=()):
    return subprocess.run(["ffmpeg", "-v", "error", "-threads", "1", *before, "-i", str(path), *args, "-"],
                          capture_output=True, timeout=300).stdout


def chain(kind, path, *keys):
    """The outputs as arrays, with the tool's words about them in .info."""
    with tempfile.TemporaryDirectory() as folder:
        info = tool("chain", kind, path, f"{folder}/o", *keys)
        if "error" in info:
            return info, []
        arrays = [np.fromfile(f"{folder}/o.{i}", DTYPES[o["dtype"]]).reshape(o["shape"])
                  for i, o in enumerate(info["outputs"])]
    return info, arrays


def write_wav(path, samples, rate, channels=1):
    """Floats, so that nothing is rounded."""
    data = np.asarray(samples, "<f4").tobytes()
    fmt = struct.pack("<HHIIHH", 3, channels, rate, rate * channels * 4, channels * 4, 32)
    body = b"WAVEfmt " + struct.pack("<I", 16) + fmt + b"data" + struct.pack("<I", len(data)) + data
    Path(path).write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)


def audio_files():
    files = sorted((SHARED / "data/audio/misc").iterdir()) + sorted(SHARED.glob("cases/*/aud/*"))
    for folder in ("lj-wav22k", "lj-flac22k", "lj-mp3", "lj-opus", "wakeword-flac16k", "digits-wav8k"):
        files += sorted((SHARED / "data/audio" / folder).iterdir())[::6]
    return files + [SHARED / "cases/open/vid/V17b-mp3-with-cover.mp3", SHARED / "cases/fetched/vid/V25f-swf-mp3.swf"]


def case(name):
    found = sorted(SHARED.glob(f"cases/*/*/{name}*"))
    assert found, name
    return found[0]


def case_videos():
    return [p for p in sorted(SHARED.glob("cases/*/vid/*"))
            if not re.match(r"V13|V15|V16|V17b|V20|V25f", p.name)]


def barcodes(frames):
    """Frame numbers of the 128x64 cases: 8 columns of 16 px, least significant bit on the left."""
    columns = frames.reshape(len(frames), 64, 8, 16, -1)[:, :, :, 4:12].mean(axis=(1, 3, 4))
    return ((columns > 127) * (1 << np.arange(8))).sum(axis=1).tolist()


@unittest.skipUnless(SHARED and shutil.which("ffmpeg") and TOOL.exists(),
                     "needs the shared test data, the ffmpeg program and the built av_tool")
class Shared(unittest.TestCase):
    pass


class AudioDecoding(Shared):
    # Where the container says more than the ffmpeg program uses: docs/audio-video.md.
    OTHER_COUNTS = {"A08-aac-m4a.m4a": 22050, "A11-vorbis.ogg": 22050}

    def test_samples_are_those_of_ffmpeg(self):
        compared, worst = 0, 0.0
        for path in audio_files():
            with self.subTest(path.name):
                facts = tool("measure", path, "audio")
                self.assertNotIn("error", facts)
                mine = np.frombuffer(raw("pcm", path).stdout, np.float32)
                theirs = np.frombuffer(ffmpeg(path, "-map", "0:a:0", "-f", "f32le"), np.float32)
                count = self.OTHER_COUNTS.get(path.name, len(theirs) // max(facts["channels"], 1))
                self.assertEqual(facts["samples"], count)
                self.assertEqual(len(mine), count * facts["channels"])
                common = min(len(mine), len(theirs))
                if common:
                    worst = max(worst, float(np.abs(mine[:common] - theirs[:common]).max()))
                self.assertLessEqual(worst, 1e-4)
                compared += 1
        print(f"{compared} files compared, largest difference {worst:g}")

    def test_facts_of_the_cases(self):
        expected = {"A01": (44100, 1, 22050), "A02b": (44100, 1, 8000), "A03-": (44100, 2, 22050),
                    "A05f": (48000, 1, 48001), "A06b": (44100, 1, 22052), "A07-": (44100, 1, 22050),
                    "A08b": (44100, 1, 23552), "A09": (48000, 1, 24000), "A12-": (44100, 6, 8000),
                    "A14-": (44100, 1, 0), "A14b": (44100, 1, 1)}
        for name, (rate, channels, samples) in expected.items():
            with self.subTest(name):
                facts = tool("measure", case(name))
                self.assertEqual((facts["type"], facts["sample_rate"], facts["channels"], facts["samples"]),
                                 ("audio", rate, channels, samples))

    def test_vorbis_reaches_its_final_granule_without_a_shift(self):
        reference = np.frombuffer(raw("pcm", case("A00")).stdout, np.float32)
        mine = np.frombuffer(raw("pcm", case("A11")).stdout, np.float32)
        self.assertEqual(len(mine), len(reference))
        lags = range(-200, 201)
        fit = [float(np.dot(np.roll(mine, lag), reference)) for lag in lags]
        self.assertEqual(lags[int(np.argmax(fit))], 0)

    def test_no_video_and_no_audio_are_said(self):
        self.assertEqual(tool("measure", case("V16"), "video")["error"], "HR_E_FORMAT")
        self.assertEqual(tool("measure", case("V17b"), "video")["error"], "HR_E_FORMAT")
        self.assertEqual(tool("measure", case("V02"), "audio")["error"], "HR_E_FORMAT")
        self.assertEqual(tool("measure", case("V16"))["type"], "audio")
        self.assertEqual(tool("measure", case("V17b"))["type"], "audio")


class AudioChain(Shared):
    def test_a_clip_is_a_slice_of_the_whole_for_every_codec(self):
        names = ["A00", "A03b", "A04b", "A06b", "A07-", "A08-", "A08b", "A09", "A10-", "A11"]
        misc = SHARED / "data/audio/misc"
        files = [case(n) for n in names] + [misc / "bbb_amrnb.3gp", misc / "ima_adpcm_44k.wav", misc / "bear.opus"]
        for path in files:
            _, (whole,) = chain("audio", path, "output:ragged=true")
            for position in range(3):
                with self.subTest(path=path.name, position=position):
                    info, (clip, length) = chain("audio", path, "clip:seconds=0.11,start=random", f"position={position}")
                    first = info["first_sample"]
                    np.testing.assert_array_equal(clip, whole[first:first + len(clip)])
                    self.assertEqual(int(length), len(clip))

    def test_a_resampled_clip_is_the_clip_alone_resampled(self):
        with tempfile.TemporaryDirectory() as folder:
            _, (whole,) = chain("audio", case("A09"), "output:ragged=true")
            info, (clip, _) = chain("audio", case("A09"), "clip:seconds=0.25,start=random", "option:rate=16000", "position=5")
            first = info["first_sample"]
            write_wav(f"{folder}/c.wav", whole[first:first + 12000], 48000)
            _, (alone,) = chain("audio", f"{folder}/c.wav", "output:ragged=true", "op:resample,rate=16000")
        self.assertEqual(len(clip), 4000)
        np.testing.assert_array_equal(clip, alone)

    def test_resampling_has_no_delay_and_the_stated_count(self):
        """A sine, resampled, is the same sine: against arithmetic, away from the ends."""
        with tempfile.TemporaryDirectory() as folder:
            for rate, to in [(48000, 22050), (48000, 16000), (44100, 16000), (16000, 48000), (8000, 16000)]:
                for samples in (rate, rate // 3 + 1, 1, 2, 17):
                    write_wav(f"{folder}/s.wav", 0.5 * np.sin(2 * np.pi * 440 * np.arange(samples) / rate), rate)
                    _, (out,) = chain("audio", f"{folder}/s.wav", "output:ragged=true", f"option:rate={to}")
                    count = (samples * to + rate // 2) // rate
                    self.assertEqual(len(out), count, (rate, to, samples))
                    if samples > 1000:
                        expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(count) / to)
                        self.assertLess(np.abs(out - expected)[100:-100].max(), 1e-3, (rate, to, samples))
                        self.assertLess(np.abs(out - expected).max(), 0.1, (rate, to, samples))

    def test_resampling_equals_ffmpeg(self):
        for name, to in [("A13", 22050), ("A13", 16000), ("A00", 16000), ("A09", 16000)]:
            theirs = np.frombuffer(ffmpeg(case(name), "-ac", "1", "-ar", str(to), "-f", "f32le"), np.float32)
            _, (mine,) = chain("audio", case(name), "output:ragged=true", f"option:rate={to}")
            n = min(len(mine), len(theirs))
            self.assertLessEqual(abs(len(mine) - len(theirs)), 1)
            self.assertLess(np.abs(mine[:n] - theirs[:n]).max(), 1e-4, name)

    def test_the_mean_of_channels(self):
        _, (silence,) = chain("audio", case("A03-"), "output:ragged=true")
        self.assertFalse(silence.any())
        _, (reference,) = chain("audio", case("A00"), "output:ragged=true")
        _, (equal,) = chain("audio", case("A12b"), "output:ragged=true")
        np.testing.assert_array_equal(equal, reference)
        _, (kept,) = chain("audio", case("A12-"), "output:ragged=true,channels=keep")
        _, (mono,) = chain("audio", case("A12-"), "output:ragged=true")
        self.assertEqual(kept.shape, (6, 8000))
        np.testing.assert_allclose(mono, kept.astype(float).mean(axis=0), atol=1e-7)

    def test_sixteen_bits_keep_sixteen_bits_and_saturate(self):
        _, (mine,) = chain("audio", case("A15"), "output:ragged=true,dtype=i16")
        theirs = np.frombuffer(ffmpeg(case("A15"), "-f", "s16le"), np.int16)
        np.testing.assert_array_equal(mine, theirs)
        _, (loud,) = chain("audio", case("A15"), "output:ragged=true,dtype=i16", "option:rate=48000")
        _, (real,) = chain("audio", case("A15"), "output:ragged=true", "option:rate=48000")
        self.assertGreater(np.abs(real).max(), 1)
        np.testing.assert_array_equal(loud, np.clip(np.rint(real * 32768.0), -32768, 32767).astype(np.int16))

    def test_a_recording_of_one_sample_and_of_none(self):
        _, (out, length) = chain("audio", case("A14b"), "clip:seconds=0.001")
        self.assertEqual((int(length), float(out[0])), (1, 12345 / 32768))
        self.assertFalse(out[1:].any())
        _, (out, length) = chain("audio", case("A14-"), "clip:seconds=0.001")
        self.assertEqual(int(length), 0)
        self.assertFalse(out.any())
        _, (out,) = chain("audio", case("A14-"), "output:ragged=true")
        self.assertEqual(out.shape, (0,))
        info, _ = chain("audio", case("A14-"), "clip:seconds=1,past_end=loop")
        self.assertEqual(info["error"], "HR_E_LIMIT")

    def test_rates_are_never_mixed_in_silence(self):
        info, _ = chain("audio", case("A00"), "clip:seconds=0.1", "max_sample_rate=48000")
        self.assertEqual(info["error"], "HR_E_FORMAT")
        self.assertIn("rate: 48000", info["text"])


class VideoDecoding(Shared):
    # frames, width, height, rotation, rate as the independent tools of the manifest say
    FACTS = {"V01": (60, 128, 64, 0), "V02": (75, 128, 64, 0), "V03-": (47, 128, 64, 0), "V03f": (25, 64, 64, 0),
             "V04": (50, 128, 64, 0), "V05-": (12, 128, 64, 90), "V05b": (12, 128, 64, 180), "V07-": (161, 64, 64, 0),
             "V08-": (125, 640, 360, 0), "V09": (50, 128, 64, 0), "V12-": (25, 128, 64, 0), "V14": (75, 128, 64, 0),
             "V17-": (75, 128, 64, 0), "V18-": (10, 100, 75, 0), "V18f": (25, 321, 241, 0), "V19-": (64, 128, 64, 0),
             "V21": (250, 128, 64, 0), "V23": (1, 128, 64, 0), "V24-": (10, 128, 64, 0), "V24b": (12, 128, 64, 0),
             "V25-": (10, 64, 54, 0)}

    def test_facts_of_the_cases(self):
        for name, expected in self.FACTS.items():
            with self.subTest(name):
                f = tool("measure", case(name), "video")
                self.assertEqual((f["frames"], f["width"], f["height"], f["orientation"]), expected)
        self.assertEqual(tool("measure", case("V22"), "video")["rate"], [30000, 1001])
        self.assertAlmostEqual(tool("measure", case("V22"), "video")["duration_ns"] / 1e9, 60 * 1001 / 30000, places=6)

    def test_frames_are_those_of_ffmpeg_in_order(self):
        files = case_videos() + sorted((SHARED / "data/video/codecs").iterdir())
        files += sorted((SHARED / "data/video/asl-gestures").iterdir())[:4] + [SHARED / "data/video/film/nasa-13013-2video-2audio.mp4"]
        files = [f for f in files if "hevc-main10" not in f.name]  # half a gigabyte of frames
        total = 0
        for path in files:
            with self.subTest(path.name):
                r = raw("yuv", path)
                theirs = ffmpeg(path, "-fps_mode", "passthrough", "-f", "rawvideo", before=["-noautorotate"])
                self.assertTrue(r.stdout == theirs, f"{len(r.stdout)} and {len(theirs)} bytes")
                frames = r.stderr.decode().split()
                self.assertEqual(len(frames), tool("measure", path, "video")["frames"])
                total += len(frames)
        print(f"{len(files)} videos, {total} frames, bit-identical")

    def test_unusable_files_say_why(self):
        for name, code in [("V13-", "HR_E_TRUNCATED"), ("V13b", "HR_E_TRUNCATED"), ("V15", "HR_E_TRUNCATED"),
                           ("V20", "HR_E_FORMAT")]:
            with self.subTest(name):
                self.assertEqual(tool("measure", case(name), "video")["error"], code)


class VideoChain(Shared):
    def rgb(self, path, facts):
        w, h = facts["width"], facts["height"]
        if facts["orientation"] in (90, 270):
            w, h = h, w
        data = ffmpeg(path, "-fps_mode", "passthrough", "-sws_flags", "bicubic+accurate_rnd+full_chroma_int+bitexact",
                      "-pix_fmt", "rgb24", "-f", "rawvideo")
        return np.frombuffer(data, np.uint8).reshape(-1, h, w, 3)

    def test_clips_are_frames_picked_from_the_whole(self):
        clips = 0
        for path in case_videos():
            facts = tool("measure", path, "video")
            whole = self.rgb(path, facts)
            for position in range(3):
                with self.subTest(path=path.name, position=position):
                    info, (frames, pts) = chain("video", path, "clip:frames=5,stride=3", "output:ragged=true", f"position={position}")
                    picked = [min(info["first_frame"] + 3 * k, facts["frames"] - 1) for k in range(5)]
                    np.testing.assert_array_equal(frames, whole[picked])
                    self.assertTrue((np.diff(pts) >= 0).all())
                    clips += 1
        print(f"{clips} clips, bit-identical")

    def test_starts_and_ends(self):
        path = case("V02")  # 75 frames

        def numbers(clip, *more):
            info, arrays = chain("video", path, "clip:" + clip, "output:ragged=true", *more)
            return barcodes(arrays[0]) if arrays else info["error"]

        self.assertEqual(numbers("frames=4,stride=2,start=begin"), [0, 2, 4, 6])
        self.assertEqual(numbers("frames=5,stride=1,start=center"), [35, 36, 37, 38, 39])
        self.assertEqual(numbers("frames=3,start=uniform"), [12, 37, 62])
        self.assertEqual(numbers("frames=4,stride=30,start=begin"), [0, 30, 60, 74])
        self.assertEqual(numbers("frames=4,stride=30,start=begin,past_end=loop"), [0, 30, 60, 15])
        self.assertEqual(numbers("frames=4,stride=30,past_end=reject"), "HR_E_LIMIT")
        seen = {numbers("frames=1", f"position={i}")[0] for i in range(40)}
        self.assertGreater(len(seen), 25)
        self.assertEqual(numbers("frames=2,start=random", "position=3"), numbers("frames=2,start=random", "position=3"))

    def test_by_time_a_frame_is_shown_until_the_next(self):
        times = np.array([float(t) for t in raw("yuv", case("V01")).stderr.split()])
        facts = tool("measure", case("V01"), "video")
        early = 0.1 * facts["rate"][1] / facts["rate"][0]
        for fps in (8, 10, 25, 60):
            for position in range(4):
                info, (frames, pts) = chain("video", case("V01"), f"clip:frames=12,fps={fps}", "output:ragged=true",
                                            f"position={position}")
                wanted = info["start_s"] + np.arange(12) / fps
                shown = np.searchsorted(times - early, wanted, side="right") - 1
                self.assertEqual(barcodes(frames), shown.tolist())
                np.testing.assert_allclose(pts, times[shown], atol=1e-8)

    def test_ntsc_asked_for_as_thirty_shows_no_frame_twice(self):
        _, (frames, pts) = chain("video", case("V22"), "clip:frames=60,fps=30,start=begin", "output:ragged=true")
        self.assertEqual(barcodes(frames), list(range(60)))
        np.testing.assert_allclose(pts, np.arange(60) * 1001 / 30000, atol=1e-8)
        _, (frames, _) = chain("video", case("V02"), "clip:seconds=1,fps=8,start=begin", "output:ragged=true")
        self.assertEqual(barcodes(frames), [math.floor(k * 25 / 8 + 0.1) for k in range(8)])

    def test_times_are_those_of_the_container(self):
        _, (_, pts) = chain("video", case("V19f"), "clip:frames=2,start=begin", "output:ragged=true")
        np.testing.assert_allclose(pts, [127995 / 15360, 127995 / 15360 + 1 / 30], atol=1e-4)

    def test_colours_follow_matrix_and_range(self):
        patches = np.array([[0xC8, 0x1E, 0x3C], [0x1E, 0x64, 0xC8], [0x3C, 0xC8, 0x1E], [0xEB, 0xEB, 0xEB]])
        for name in ("V11-col-601-limited", "V11-col-709-full", "V11-col-709-limited"):
            _, (frames, _) = chain("video", case(name), "clip:frames=1,start=begin", "output:ragged=true")
            means = frames[0].reshape(64, 4, 64, 3)[16:48, :, 16:48].mean(axis=(0, 2))
            self.assertLess(np.abs(means - patches).max(), 2, name)

    def test_layouts_and_types_hold_the_same_picture(self):
        ops = ("op:random_resized_crop,size=32", "op:hflip,p=0.5")
        for position in range(3):
            _, (nthwc, _) = chain("video", case("V02"), "clip:frames=3,stride=2", *ops, f"position={position}")
            _, (ntchw, _) = chain("video", case("V02"), "clip:frames=3,stride=2", *ops, "output:layout=ntchw", f"position={position}")
            _, (ncthw, _) = chain("video", case("V02"), "clip:frames=3,stride=2", *ops, "output:layout=ncthw", f"position={position}")
            _, (floats, _) = chain("video", case("V02"), "clip:frames=3,stride=2", *ops, "output:layout=ncthw,dtype=f32",
                                   f"position={position}")
            self.assertEqual(nthwc.shape, (3, 32, 32, 3))
            np.testing.assert_array_equal(ntchw, nthwc.transpose(0, 3, 1, 2))
            np.testing.assert_array_equal(ncthw, nthwc.transpose(3, 0, 1, 2))
            # floats are rounded once, bytes between the passes too
            self.assertLess(np.abs(floats * 255 - ncthw).max(), 1.01)
        _, (gray, _) = chain("video", case("V02"), "clip:frames=2", "output:ragged=true,channels=gray")
        self.assertEqual(gray.shape[-1], 1)

    def test_a_repeated_frame_is_the_same_in_every_layout(self):
        for layout in ("nthwc", "ntchw", "ncthw"):
            _, (frames, pts) = chain("video", case("V23"), "clip:frames=3", f"output:ragged=true,layout={layout}")
            axis = 1 if layout == "ncthw" else 0
            for k in (1, 2):
                np.testing.assert_array_equal(frames.take(k, axis), frames.take(0, axis))
            self.assertEqual(pts.tolist(), [0, 0, 0])

    def test_a_crop_equals_the_same_part_of_the_whole(self):
        """Only the part around a crop is converted to RGB; chroma at its edges must not show it."""
        for name in ("V02", "V08-", "V08f", "V10-", "V11f", "V18-", "V18f", "V24b", "V05-"):
            _, (whole, _) = chain("video", case(name), "clip:frames=2,start=begin", "output:ragged=true")
            h, w = whole.shape[1:3]
            for side in (17, 40, min(h, w) - 3):
                _, (crop, _) = chain("video", case(name), "clip:frames=2,start=begin", f"op:center_crop,size={side}")
                places = [(t, l) for t in {(h - side) // 2, (h - side + 1) // 2} for l in {(w - side) // 2, (w - side + 1) // 2}]
                self.assertTrue(any((crop == whole[:, t:t + side, l:l + side]).all() for t, l in places), (name, side))

    def test_the_window_after_a_resize_equals_the_crop_of_the_whole(self):
        _, (whole, _) = chain("video", case("V08-"), "clip:frames=2,start=begin", "op:resize,size=128", "output:ragged=true")
        _, (window, _) = chain("video", case("V08-"), "clip:frames=2,start=begin", "op:resize,size=128", "op:center_crop,size=96")
        h, w = whole.shape[1:3]
        top, left = (h - 96 + 1) // 2, (w - 96 + 1) // 2
        options = [(t, l) for t in {(h - 96) // 2, top} for l in {(w - 96) // 2, left}]
        self.assertTrue(any((window == whole[:, t:t + 96, l:l + 96]).all() for t, l in options))


if __name__ == "__main__":
    unittest.main()
