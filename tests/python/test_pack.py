"""headrace pack: every kind of source, what is rejected and how, resuming, reproducibility."""
import base64
import fcntl
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
import unittest
import wave
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ.get("HEADRACE_BIN", str(ROOT / "build" / "tools" / "headrace"))


def shared():
    for place in [os.environ.get("HR_SHARED"), ROOT.parent / "shared", ROOT.parent.parent / "shared"]:
        if place and (Path(place) / "data").is_dir():
            return Path(place)
    return None


# A 32x24 baseline JPEG, 4:2:0.
JPEG = base64.b64decode("""
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdB
RkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P
T09PT09PT09PT09PT0//wAARCAAYACADASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAA
AgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6
Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXG
x8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREA
AgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5
OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPE
xcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwDhIbP2q9DZ+1aMNn7Vehs/aojMzwuMM6Gz
9qvQ2ftWjDZ+1XobP2raMz6LC4wqQ2ftV6Gz9qKK8+LZ+d4WrIvQ2ftV6Gz9qKK2i2fQ4WrI/9k=""")


def jpeg(i):
    """Different bytes for each i, the same picture: a comment behind the start marker."""
    note = b"picture %d" % i
    return JPEG[:2] + b"\xff\xfe" + (len(note) + 2).to_bytes(2, "big") + note + JPEG[2:]


def wav(seconds=0.1, seed=0, rate=16000):
    samples = np.random.default_rng(seed).integers(-9000, 9000, int(seconds * rate), dtype="<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(samples.tobytes())
    return out.getvalue()


def npy(array, version=(1, 0)):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def snapshot(folder):
    """Name -> digest of every file."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def has_command(name):
    return subprocess.run([BIN, name, "--help"], capture_output=True).returncode == 0


class Base(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="headrace-pack-"))
        os.chmod(self.dir, 0o755)
        self.src = self.dir / "src"
        self.src.mkdir()
        self.dst = self.dir / "out.hrd"
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def put(self, name, data):
        if isinstance(data, str):
            data = data.encode()
        path = os.path.join(os.fsencode(self.src), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        return Path(os.fsdecode(path))

    def run_pack(self, *args, src=None, dst=None, **kw):
        srcs = src if isinstance(src, list) else [src or self.src]
        if not any(str(a).startswith("--jpeg") for a in args):
            args = (*args, "--jpeg=keep")  # the tests look for the files' bytes; test_repack.py has the rest
        return subprocess.run([BIN, "pack", *map(str, srcs), str(dst or self.dst), *args],
                              capture_output=True, text=True, timeout=120, **kw)

    def pack(self, *args, **kw):
        r = self.run_pack("--json", *args, **kw)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def refused(self, words, *args, code=2, **kw):
        r = self.run_pack(*args, **kw)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        for word in [words] if isinstance(words, str) else words:
            self.assertIn(word, r.stderr)
        return r

    def rejects(self, dst=None):
        path = Path(dst or self.dst) / "rejects.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def shard_bytes(self, dst=None):
        return b"".join(p.read_bytes() for p in sorted(Path(dst or self.dst).glob("*.hrs")))

    def inspect(self, *args, dst=None):
        if not has_command("inspect"):
            self.skipTest("this build has no inspect command")
        r = subprocess.run([BIN, "inspect", str(dst or self.dst), *map(str, args)],
                           capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def rows(self, count, dst=None):
        out = self.inspect("--records", f"0:{count}", "--json", dst=dst)
        return [json.loads(line) for line in out.splitlines()]


class Folder(Base):
    def test_class_folders_give_labels(self):
        for c in ["cat", "dog", "emu"]:
            for i in range(3):
                self.put(f"{c}/deep/er/{i}.jpg", jpeg(ord(c[0]) + i))
        r = self.pack()
        self.assertEqual((r["records"], r["rejected"], r["classes"]), (9, 0, 3))
        for c in "cde":
            self.assertIn(jpeg(ord(c)), self.shard_bytes())

    def test_parts_of_a_collection_are_told_from_classes(self):
        self.put("train/cat/1.jpg", jpeg(1))
        self.put("val/cat/2.jpg", jpeg(2))
        self.assertIn(f"headrace pack {self.src}/train DST", self.run_pack().stderr)

    def test_flat_folder_has_no_labels(self):
        for i in range(4):
            self.put(f"{i}.jpg", jpeg(i))
        r = self.run_pack()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("fields: image (image)\n", r.stdout)

    def test_order_is_that_of_bytes_in_any_locale(self):
        for name in ["b", "B", "a", "é", "Z", "_"]:
            self.put(f"{name}.jpg", jpeg(len(name)))
        env = dict(os.environ, LC_ALL="C")
        one = self.pack(env=env)
        env["LC_ALL"] = "de_DE.UTF-8"
        self.assertEqual(one["digest"], self.pack(dst=self.dir / "two", env=env)["digest"])

    def test_same_bytes_with_any_number_of_jobs(self):
        for i in range(300):
            self.put(f"{i % 7}/{i}.jpg", jpeg(i))
        self.put("3/bad.jpg", b"not a picture")
        found = []
        for jobs in ["1", "2", "7"]:
            dst = self.dir / f"out{jobs}"
            self.pack("--jobs", jobs, "--shard-size", "64K", dst=dst)
            found.append(snapshot(dst))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        self.assertGreater(len(found[0]), 4)

    def test_recordings_and_pictures_together(self):
        self.put("a/1.jpg", jpeg(1))
        self.put("a/2.wav", wav())
        r = self.run_pack()
        self.assertIn("fields: image (image) audio (audio) label (i64)", r.stdout, r.stderr)

    def test_text_files(self):
        self.put("1.txt", "eins")
        self.put("2.txt", "zwei é")
        self.assertEqual(self.pack("--compress", "text=none")["records"], 2)
        self.assertIn("zwei é".encode(), self.shard_bytes())

    def test_text_that_is_not_utf8_is_rejected(self):
        self.put("1.txt", "good")
        self.put("2.txt", b"caf\xe9")
        self.assertEqual(self.pack()["rejected"], 1)
        self.assertIn("byte 0xE9 at offset 3", self.rejects()[0]["reason"])

    def test_a_dataset_inside_the_source_is_no_part_of_it(self):
        self.put("a/1.jpg", jpeg(1))
        inside = self.src / "out.hrd"
        one = self.pack(dst=inside)
        self.assertEqual(self.pack("--resume", dst=inside)["digest"], one["digest"])
        self.assertEqual(self.pack(dst=self.src / "again")["digest"], one["digest"])

    def test_other_files_are_left_out_and_counted(self):
        self.put("a/1.jpg", jpeg(1))
        self.put("a/README.md", "hello")
        self.put("a/.DS_Store", "x")
        self.assertEqual(self.pack()["left_out"], 1)

    def test_unknown_suffix_is_taken_by_content(self):
        self.put("a/1.jpg", jpeg(1))
        self.put("a/2.dat", jpeg(2))
        self.assertEqual(self.pack()["records"], 2)

    def test_real_photographs(self):
        if not shared():
            self.skipTest("no shared data here")
        src = shared() / "data/images/flowers"
        r = self.pack(src=src)
        self.assertEqual((r["records"], r["rejected"], r["classes"]), (240, 0, 5))
        self.assertEqual(r["bytes_in"], sum(p.stat().st_size for p in src.rglob("*.jpg")))
        data = self.shard_bytes()
        for p in sorted(src.rglob("*.jpg"))[::37]:
            self.assertIn(p.read_bytes(), data)

    def test_labels_and_keys_as_inspect_shows_them(self):
        self.put("b/2.jpg", jpeg(2))
        self.put("a/1.jpg", jpeg(1))
        self.pack()
        rows = self.rows(2)
        self.assertEqual([r["key"] for r in rows], ["a/1.jpg", "b/2.jpg"])
        self.assertEqual([r["fields"]["label"] for r in rows], [0, 1])
        facts = rows[0]["fields"]["image"]
        self.assertEqual((facts["width"], facts["height"]), (32, 24))


class BadInput(Base):
    def good(self, n=2):
        for i in range(n):
            self.put(f"a/good{i}.jpg", jpeg(i))

    def one_reject(self, name, words, *args):
        r = self.pack(*args)
        self.assertEqual(r["rejected"], 1, self.rejects())
        row = self.rejects()[0]
        self.assertTrue(row["key"].endswith(name), row)
        self.assertTrue(row["file"].endswith(name), row)
        self.assertRegex(row["code"], r"^HR_E_[A-Z_]+$")
        self.assertIn(words, row["reason"])
        return row

    def test_bytes_that_are_no_picture(self):
        self.good()
        self.put("a/x.jpg", os.urandom(999))
        self.one_reject("a/x.jpg", "no known media format")

    def test_empty_file(self):
        self.good()
        self.put("a/x.jpg", b"")
        self.one_reject("a/x.jpg", "empty")

    def test_picture_cut_short_is_found_by_verify_media(self):
        self.good()
        self.put("a/x.jpg", JPEG[:-60])
        self.one_reject("a/x.jpg", "", "--verify-media")

    def test_recording_cut_short(self):
        self.put("a/1.wav", wav())
        self.put("a/2.wav", wav(1)[:9000])
        self.one_reject("a/2.wav", "")

    def test_clip_cut_short(self):
        if not shared():
            self.skipTest("no shared data here")
        clip = (shared() / "data/video/codecs").glob("*.mp4")
        data = min(clip, key=lambda p: p.stat().st_size).read_bytes()
        self.put("a/1.mp4", data)
        self.put("a/2.mp4", data[:len(data) * 2 // 3])
        self.one_reject("a/2.mp4", "", "--verify-media")

    def test_wrong_suffix_content_counts(self):
        self.put("a/1.png", jpeg(1))
        self.put("a/2.jpg", jpeg(2))
        r = self.pack()
        self.assertEqual((r["records"], r["rejected"], r["renamed"]), (2, 0, 1))

    def test_a_recording_named_as_a_picture_goes_to_its_field(self):
        self.put("a/1.jpg", jpeg(1))
        self.put("a/2.wav", wav())
        self.put("a/3.jpg", wav(seed=3))
        r = self.pack()
        self.assertEqual((r["records"], r["renamed"]), (3, 1))

    def test_a_recording_among_pictures_only(self):
        self.good()
        self.put("a/x.jpg", wav())
        self.one_reject("a/x.jpg", "not a picture")

    def test_empty_folder(self):
        self.refused([f"no records found in {self.src}", "looked for"])
        self.assertFalse(self.dst.exists())

    def test_missing_source(self):
        self.refused("cannot open the source", src=self.dir / "nothing")

    def test_name_that_is_not_utf8(self):
        self.put(b"a/caf\xe9.jpg", jpeg(1))
        self.put(b"b\xff/1.jpg", jpeg(2))
        r = self.pack()
        self.assertEqual((r["records"], r["classes"]), (2, 2))
        if has_command("inspect"):
            self.assertEqual([x["key"] for x in self.rows(2)], ["a/caf\\xE9.jpg", "b\\xFF/1.jpg"])

    def test_rejects_of_names_that_are_not_utf8_are_json(self):
        self.good()
        self.put(b"a/\xff.jpg", b"")
        self.pack()
        self.assertEqual(self.rejects()[0]["key"], "a/\\xFF.jpg")

    def test_circle_of_links(self):
        self.good()
        (self.src / "a" / "loop").symlink_to(self.src, target_is_directory=True)
        r = self.pack("--follow-symlinks")
        self.assertEqual(r["records"], 2)

    def test_links_to_folders_are_followed_when_asked(self):
        self.good()
        other = self.dir / "other"
        other.mkdir()
        (other / "x.jpg").write_bytes(jpeg(9))
        (self.src / "b").symlink_to(other, target_is_directory=True)
        (self.src / "a" / "file.jpg").symlink_to(other / "x.jpg")
        self.assertEqual(self.pack()["records"], 3)
        self.assertEqual(self.pack("--follow-symlinks", dst=self.dir / "two")["records"], 4)

    def test_link_that_leads_nowhere(self):
        self.good()
        (self.src / "a" / "x.jpg").symlink_to("gone.jpg")
        self.one_reject("a/x.jpg", "No such file")

    def test_pipe_in_the_folder(self):
        self.good()
        os.mkfifo(self.src / "a" / "x.jpg")
        self.assertEqual(self.pack()["records"], 2)

    def test_file_that_may_not_be_read(self):
        self.good()
        os.chmod(self.put("a/x.jpg", jpeg(5)), 0)
        os.chmod(self.dir, 0o777)
        kw = {}
        if os.geteuid() == 0:
            kw = {"user": 65534, "group": 65534}
            if subprocess.run(["true"], **kw).returncode or not os.access(BIN, os.X_OK):
                self.skipTest("cannot become another user")
            if subprocess.run([BIN, "--version"], capture_output=True, **kw).returncode:
                self.skipTest("the binary is not readable for another user")
        r = self.pack(**kw)
        self.assertEqual(r["rejected"], 1)
        self.assertEqual(self.rejects()[0]["code"], "HR_E_DENIED")

    def test_class_folder_without_a_file_is_kept_and_warned_of(self):
        self.good()
        (self.src / "empty").mkdir()
        r = self.run_pack("--json")
        self.assertEqual(json.loads(r.stdout)["classes"], 2)
        self.assertIn("class folder 'empty' holds no record", r.stderr)

    def test_strict_ends_with_1_and_no_dataset(self):
        self.good()
        self.put("a/x.jpg", b"")
        r = self.refused("--strict", "--strict", "--json", code=1)
        self.assertEqual((json.loads(r.stdout)["rejected"], json.loads(r.stdout)["digest"]), (1, None))
        self.assertFalse((self.dst / "dataset.hrm").exists())
        self.assertEqual(len(self.rejects()), 1)
        # without --strict it goes on from there
        self.assertEqual(self.pack("--resume")["records"], 2)
        self.assertEqual(len(self.rejects()), 1)

    def test_every_record_rejected(self):
        self.put("a/x.jpg", b"")
        self.refused("every record was rejected", code=3)
        self.assertFalse((self.dst / "dataset.hrm").exists())


    def test_a_file_that_is_written_meanwhile_is_rejected(self):
        """Whether its beginning alone would have been good or not."""
        self.put("whole.txt", "good")
        log = self.put("log.txt", b"line\n" * 5_000_000)
        done = threading.Event()

        def write():
            with open(log, "ab", buffering=0) as file:
                while not done.is_set():
                    file.write(b"more\n")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            self.assertEqual(self.pack()["records"], 1)
        finally:
            done.set()
            writer.join()
        self.assertIn("changed while it was read", self.rejects()[0]["reason"])


class Destination(Base):
    def setUp(self):
        super().setUp()
        for i in range(3):
            self.put(f"{i}.jpg", jpeg(i))

    def test_a_dataset_is_not_overwritten(self):
        self.pack()
        before = snapshot(self.dst)
        self.refused(["holds a dataset already", "another name"])
        self.assertEqual(before, snapshot(self.dst))

    def test_other_files_are_not_mixed_with(self):
        self.dst.mkdir()
        (self.dst / "thesis.tex").write_text("x")
        self.refused("is not empty", "--resume")
        self.assertEqual(os.listdir(self.dst), ["thesis.tex"])

    def test_an_empty_folder_is_used(self):
        self.dst.mkdir()
        self.assertEqual(self.pack()["records"], 3)

    def test_parent_missing(self):
        self.refused("parent folder", dst=self.dir / "no" / "out")

    def test_read_only(self):
        locked = self.dir / "locked"
        locked.mkdir()
        os.chmod(locked, 0o555)
        kw = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        if kw and subprocess.run([BIN, "--version"], capture_output=True, **kw).returncode:
            self.skipTest("the binary is not readable for another user")
        self.refused(["Permission denied", "that you can write to"], dst=locked / "out", **kw)

    def test_resume_of_a_finished_pack_does_nothing(self):
        r = self.pack()
        before = snapshot(self.dst)
        again = self.pack("--resume")
        self.assertEqual((again["digest"], again["records"]), (r["digest"], 3))
        self.assertEqual(before, snapshot(self.dst))

    def test_dry_run_writes_nothing(self):
        self.put("x.jpg", b"")
        r = self.pack("--dry-run")
        self.assertEqual((r["records"], r["rejected"], r["digest"]), (3, 1, None))
        self.assertFalse(self.dst.exists())

    def test_limit(self):
        self.assertEqual(self.pack("--limit", "2")["records"], 2)

    def test_pictures_are_repacked_unless_told_otherwise(self):
        for i in range(3):
            self.put(f"{i}.jpg", jpeg(i))
        plain = subprocess.run([BIN, "pack", self.src, self.dst, "--json"], capture_output=True, text=True, timeout=120)
        r = json.loads(plain.stdout)
        self.assertEqual((r["records"], r["jpeg_repacked"], r["jpeg_kept"]), (3, 3, 0))
        self.assertEqual(r["bytes_in"], sum(len(jpeg(i)) for i in range(3)))
        self.refused("keep", "--jpeg=none")

    def test_wrong_options(self):
        self.refused("there is no field 'imag'", "--compress", "imag=lz4")
        self.refused("one of none, lz4, lz4hc", "--compress", "image=zip")
        self.refused("FIELD=CODEC", "--compress", "image")
        self.refused("did you mean --jobs?", "--job", "2")
        self.refused("a whole number", "--jobs", "two")
        self.refused("must be from", "--jobs", "0")
        self.refused("size such as", "--shard-size", "big")
        self.refused("one of: guess, folder", "--from", "zip")
        self.assertFalse(self.dst.exists())


class Interrupted(Base):
    def setUp(self):
        super().setUp()
        for i in range(900):
            self.put(f"{i % 10}/{i:05}.wav", wav(0.25, i))
        self.put("3/bad.wav", b"nothing")
        self.args = ["--shard-size", "64K", "--jobs", "2", "--jpeg=keep"]

    def start_and_stop(self, sig, dst, shards=4):
        p = subprocess.Popen([BIN, "pack", str(self.src), str(dst), *self.args],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        journal = Path(dst) / ".pack-journal"
        deadline = time.time() + 30
        while time.time() < deadline and p.poll() is None:
            if journal.exists() and journal.read_text().count("\n") > shards:
                break
            time.sleep(0.001)
        p.send_signal(sig)
        out, err = p.communicate(timeout=60)
        return p.returncode, out, err

    def test_killed_again_and_again_then_resumed(self):
        whole = self.dir / "whole"
        want = self.pack(*self.args, dst=whole)
        self.args.append("--resume")
        killed = 0
        for shards in [3, 20, 45]:
            code, _, _ = self.start_and_stop(signal.SIGKILL, self.dst, shards)
            killed += code == -signal.SIGKILL
            if code:
                self.assertFalse((self.dst / "dataset.hrm").exists())
        self.assertGreater(killed, 0)
        got = self.pack(*self.args)
        for key in ["digest", "records", "rejected", "bytes_in", "bytes_out", "shards"]:
            self.assertEqual(got[key], want[key], key)
        self.assertEqual(snapshot(self.dst), snapshot(whole))

    def test_finished_shards_are_not_written_again(self):
        code, _, _ = self.start_and_stop(signal.SIGKILL, self.dst)
        if code == 0:
            self.skipTest("it was done before it was killed")
        first = self.dst / "data-00000.hrs"
        before = first.stat()
        self.pack(*self.args, "--resume")
        after = first.stat()
        self.assertEqual((before.st_ino, before.st_mtime_ns), (after.st_ino, after.st_mtime_ns))

    def test_ctrl_c_says_how_to_go_on(self):
        code, out, err = self.start_and_stop(signal.SIGINT, self.dst)
        if code == 0:
            self.skipTest("it was done before it was interrupted")
        self.assertEqual(code, 130, err)
        self.assertIn("--resume", err)
        self.assertEqual(list(self.dst.glob("*.tmp")), [])
        self.assertFalse((self.dst / "dataset.hrm").exists())
        self.assertEqual(self.pack(*self.args, "--resume")["records"], 900)

    def test_ctrl_c_while_it_looks_at_the_source_ends_at_once(self):
        lines = self.dir / "lines.jsonl"
        lines.write_bytes(b'{"text":"x"}\n' * 4_000_000)
        begin = time.monotonic()
        p = subprocess.Popen([BIN, "pack", str(lines), str(self.dst)], stderr=subprocess.PIPE)
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        self.assertIn(p.returncode, (-signal.SIGINT, 130))
        self.assertLess(time.monotonic() - begin, 1)
        self.assertFalse(self.dst.exists())

    def test_changed_source_or_options_are_refused(self):
        code, _, _ = self.start_and_stop(signal.SIGKILL, self.dst)
        if code == 0:
            self.skipTest("it was done before it was killed")
        self.refused("holds a pack that was not finished", *self.args)
        self.refused(["options changed", "131072"], "--shard-size", "128K", "--resume")
        path = self.src / "0" / "00000.wav"
        old = path.read_bytes()
        path.write_bytes(old + b"more")
        self.refused("size of a file", *self.args, "--resume")
        path.write_bytes(old)
        self.refused("last change", *self.args, "--resume")
        path.unlink()
        self.refused("list of files", *self.args, "--resume")

    def test_one_pack_at_a_time(self):
        code, _, _ = self.start_and_stop(signal.SIGKILL, self.dst)
        if code == 0:
            self.skipTest("it was done before it was killed")
        with open(self.dst / ".pack-journal") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            self.refused("another pack is writing", *self.args, "--resume")
        self.assertEqual(self.pack(*self.args, "--resume")["records"], 900)

    def test_a_missing_shard_is_noticed(self):
        code, _, _ = self.start_and_stop(signal.SIGKILL, self.dst)
        if code == 0:
            self.skipTest("it was done before it was killed")
        (self.dst / "data-00000.hrs").unlink()
        self.refused("data-00000.hrs is missing", *self.args, "--resume")

    def test_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        args = ["--shard-size", "4M"]
        self.refused(["data-00000.hrs", "--resume"], *args, code=3, preexec_fn=limit)
        self.assertFalse(self.dst.exists())
        r = self.pack(*args)
        self.assertEqual(r["records"], 900)

    def test_full_disk_after_some_shards(self):
        mount = self.dir / "small"
        mount.mkdir()
        if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4M", "tmpfs",
                                           str(mount)], capture_output=True).returncode:
            self.skipTest("cannot mount a small file system here")
        try:
            dst = mount / "out"
            self.refused(["No space left", "make room", "finished shards are kept"],
                         "--shard-size", "1M", dst=dst, code=3)
            self.assertFalse((dst / "dataset.hrm").exists())
            self.assertEqual(list(dst.glob("*.tmp")), [])
            subprocess.run(["mount", "-o", "remount,size=64M", str(mount)], check=True)
            got = self.pack("--shard-size", "1M", "--resume", dst=dst)
            want = self.pack("--shard-size", "1M")
            self.assertEqual(got["digest"], want["digest"])
        finally:
            subprocess.run(["umount", str(mount)])


class Jsonl(Base):
    def lines(self, *lines, name="d.jsonl"):
        text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
        return self.put(name, text)

    def fields(self, path, *args):
        r = self.run_pack(*args, src=path)
        self.assertEqual(r.returncode, 0, r.stderr)
        found = re.search(r"^fields:(.*)$", r.stdout, re.M).group(1)
        return dict(re.findall(r" (\S+) \((\w+)\)", found))

    def test_types_follow_from_values(self):
        path = self.lines(*[{"n": i, "x": i / 2, "m": i if i % 2 else i + 0.5, "ok": i % 2 == 0,
                             "lang": ["en", "de"][i % 2], "text": f"sentence number {i}",
                             "tags": [i], "o": {"a": i}, "never": None} for i in range(8)])
        self.assertEqual(self.fields(path), {
            "n": "i64", "x": "f64", "m": "f64", "ok": "bool", "lang": "str", "text": "text",
            "tags": "json", "o": "json"})

    def test_type_option(self):
        path = self.lines({"a": 1, "b": "x"}, {"a": 2, "b": "x"})
        self.assertEqual(self.fields(path, "--type", "a=text", "--type", "b=text"),
                         {"a": "text", "b": "text"})

    def test_values_come_back_exactly(self):
        rows = [{"i": 2**63 - 1, "f": 0.1, "b": True, "s": "ä\n\"\u2028\0x", "l": "en", "m": 3},
                {"i": -2**63, "f": 1e300, "b": False, "s": "", "l": "en", "m": 0.5}]
        self.pack(src=self.lines(*rows))
        got = [r["fields"] for r in self.rows(2)]
        for want, have in zip(rows, got):
            for key in ["i", "f", "b", "l", "m"]:
                self.assertEqual(have[key], want[key], key)
            self.assertEqual(have["s"]["bytes"], len(want["s"].encode()))
        out = self.dir / "s"
        self.inspect("0", "--extract", "s", "--out", out)
        self.assertEqual(out.read_bytes(), rows[0]["s"].encode())

    def test_whole_numbers_beyond_64_bits_are_told_of(self):
        r = self.run_pack(src=self.lines({"a": 2**63}, {"a": 1}))
        self.assertIn("(--type a=json keeps them as written)", r.stderr)
        self.assertIn("a (f64)", r.stdout)

    def test_absent_and_null_are_no_value(self):
        self.pack(src=self.lines({"a": 1, "b": "x y"}, {"a": None}, {"b": "z"}))
        got = [{k for k, v in r["fields"].items() if v is not None} for r in self.rows(3)]
        self.assertEqual(got, [{"a", "b"}, set(), {"b"}])

    def test_nested_values_are_kept_as_written(self):
        path = self.lines('{"j": {"x": 1.00, "big": 123456789012345678901234567890}}')
        self.pack("--compress", "j=none", src=path)
        self.assertIn(b'{"x": 1.00, "big": 123456789012345678901234567890}', self.shard_bytes())

    def test_line_that_is_no_json(self):
        path = self.lines({"a": 1}, '{"a": 2,, "b": 1}', {"a": 3}, "[1, 2]", '{"a": NaN}',
                          '{"a": 1, "a": 2}', '{"a": 4')
        r = self.pack(src=path)
        self.assertEqual((r["records"], r["rejected"]), (2, 5))
        rows = self.rejects()
        self.assertEqual([x["line"] for x in rows], [2, 4, 5, 6, 7])
        self.assertEqual(rows[0]["column"], 9)
        self.assertEqual(rows[2]["column"], 7)
        self.assertTrue(all(x["file"].endswith("d.jsonl") for x in rows))

    def test_blank_lines_bom_and_no_final_newline(self):
        path = self.put("d.jsonl", b"\xef\xbb\xbf{\"a\": 1}\r\n\n  \n{\"a\": 2}")
        self.assertEqual(self.pack(src=path)["records"], 2)

    def test_conflicting_types_name_both_lines(self):
        path = self.lines({"a": 1}, {"a": None}, {"a": "x"})
        self.refused(["d.jsonl:3:7:", "line 1", "--type a=json"], src=path)
        self.assertEqual(self.fields(path, "--type", "a=json"), {"a": "json"})

    def test_whole_numbers_that_f64_cannot_hold(self):
        path = self.lines({"a": 2**60 + 1}, {"a": 0.5})
        self.refused("too large for f64", src=path)

    def test_nothing_in_it(self):
        self.refused("no records found", src=self.put("d.jsonl", b"\n\n"))
        self.refused("no records found", src=self.put("d.jsonl", b"hello\n"))

    def test_keys_that_are_no_field_names(self):
        path = self.lines({"a b": 1, "1st": 2, "ok": 3})
        self.assertEqual(self.fields(path), {"a_b": "i64", "_1st": "i64", "ok": "i64"})
        self.refused("both be the field", src=self.lines({"a b": 1, "a_b": 2}), dst=self.dir / "2")

    def test_files_are_embedded_by_content(self):
        self.put("media/1.jpg", jpeg(1))
        self.put("media/2.jpg", jpeg(2))
        self.put("media/1.wav", wav(seed=1))
        self.put("media/2.npy", npy(np.arange(6, dtype="<f4").reshape(2, 3)))
        self.put("media/2.bin", b"\x00\x01\x02\x03")
        path = self.lines(
            {"image": "@media/1.jpg", "sound": "@media/1.wav", "note": "a @ b"},
            {"image": "@media/2.jpg", "t": "@media/2.npy", "raw": "@media/2.bin", "note": "c"})
        self.assertEqual(self.fields(path, "--compress", "note=none"), {
            "image": "image", "sound": "audio", "note": "text", "t": "tensor", "raw": "bytes"})
        data = self.shard_bytes()
        for part in [jpeg(1), jpeg(2), wav(seed=1), np.arange(6, dtype="<f4").tobytes(), b"a @ b"]:
            self.assertIn(part, data)
        self.assertNotIn(b"NUMPY", data)

    def test_embed_option(self):
        self.put("media/1.jpg", jpeg(1))
        path = self.lines({"image": "media/1.jpg"})
        self.assertEqual(self.fields(path, "--embed", "image"), {"image": "image"})

    def test_embed_as_bytes(self):
        self.put("media/1.jpg", jpeg(1))
        path = self.lines({"image": "media/1.jpg"})
        self.assertEqual(self.fields(path, "--embed", "image=bytes"), {"image": "bytes"})

    def test_path_that_leaves_the_tree(self):
        outside = self.dir / "outside.jpg"
        outside.write_bytes(jpeg(1))
        path = self.lines({"n": 1}, {"image": "@../outside.jpg"})
        self.refused(["d.jsonl:2:11:", "leaves the tree", "--allow-outside", "--root"], src=path)
        self.assertFalse(self.dst.exists())
        self.refused("leaves the tree", src=self.lines({"image": f"@{outside}"}))
        self.refused("leaves the tree", src=self.lines({"image": "@a/../../outside.jpg"}))
        path = self.lines({"image": "@../outside.jpg"})
        self.assertEqual(self.fields(path, "--root", self.dir), {"image": "image"})
        self.assertEqual(self.pack("--allow-outside", src=path, dst=self.dir / "2")["records"], 1)

    def test_link_that_leaves_the_tree(self):
        (self.dir / "secret.jpg").write_bytes(jpeg(1))
        self.put("a.jpg", jpeg(2))
        (self.src / "link.jpg").symlink_to(self.dir / "secret.jpg")
        path = self.lines({"image": "@a.jpg"}, {"image": "@link.jpg"})
        self.assertEqual(self.pack(src=path)["rejected"], 1)
        self.assertIn("leaves the tree", self.rejects()[0]["reason"])

    def test_missing_file_rejects_its_record(self):
        self.put("1.jpg", jpeg(1))
        path = self.lines({"image": "@1.jpg"}, {"image": "@2.jpg"})
        self.assertEqual(self.pack(src=path)["records"], 1)
        row = self.rejects()[0]
        self.assertEqual((row["line"], row["code"]), (2, "HR_E_NOT_FOUND"))
        self.assertIn("2.jpg", row["reason"])

    def test_one_key_with_two_kinds_of_files(self):
        self.put("1.jpg", jpeg(1))
        self.put("2.wav", wav())
        path = self.lines({"f": "@1.jpg"}, {"f": "@2.wav"})
        self.refused(["d.jsonl:2:7:", "line 1", "--embed f=bytes"], src=path)

    def test_several_files_in_a_folder(self):
        self.lines({"a": 1}, name="b.jsonl")
        self.lines({"a": 2}, {"a": 3}, name="a.jsonl")
        self.assertEqual(self.pack()["records"], 3)

    def test_too_many_keys(self):
        self.refused("one key more", src=self.lines({f"k{i}": i for i in range(65)}))

    def test_deep_nesting_is_an_error_not_a_crash(self):
        path = self.lines({"a": 1}, '{"a": ' + "[" * 100000 + "]" * 100000 + "}")
        self.assertEqual(self.pack(src=path)["rejected"], 1)

    def test_real_pairs(self):
        if not shared():
            self.skipTest("no shared data here")
        data = shared() / "data"
        r = self.pack("--embed", "image", "--root", data, src=data / "pairs/image-caption.jsonl")
        self.assertEqual((r["records"], r["rejected"]), (110, 0))
        self.refused("leaves the tree", "--embed", "image", src=data / "pairs/image-caption.jsonl",
                     dst=self.dir / "2")


class Pairs(Base):
    def test_same_stem_is_one_record(self):
        for i in range(3):
            self.put(f"d/{i}.jpg", jpeg(i))
            self.put(f"d/{i}.txt", f"caption {i}")
            self.put(f"d/{i}.json", json.dumps({"i": i}))
            self.put(f"d/{i}.npy", npy(np.full(4, i, dtype="<i4")))
            self.put(f"d/{i}.cls", f"{i}\n")
        r = self.run_pack()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("packed 3 of 3 records", r.stdout)
        self.assertEqual(set(re.findall(r" (\w+ \(\w+\))", r.stdout.split("fields:")[1])),
                         {"image (image)", "text (text)", "json (json)", "tensor (tensor)",
                          "label (i64)"})

    def test_stems_with_dots_and_neighbours(self):
        for stem in ["a", "a-b", "a.b", "trip 1.2"]:
            self.put(stem + ".jpg", jpeg(1))
            self.put(stem + ".txt", stem)
        self.assertEqual(self.pack()["records"], 4)

    def test_two_files_for_one_field(self):
        self.put("x.jpg", jpeg(1))
        self.put("x.jpeg", jpeg(2))
        self.put("x.txt", "x")
        self.refused(["x.jpeg", "x.jpg", "'image'"])
        self.assertFalse(self.dst.exists())

    def test_a_member_may_be_missing(self):
        self.put("1.jpg", jpeg(1))
        self.put("1.txt", "one")
        self.put("2.jpg", jpeg(2))
        self.assertEqual(self.pack("--from", "pairs")["records"], 2)

    def test_bad_members(self):
        self.put("1.jpg", jpeg(1))
        self.put("1.json", "{")
        self.put("2.jpg", jpeg(2))
        self.put("2.json", "{}")
        self.put("3.jpg", jpeg(2))
        self.put("3.cls", "cat")
        self.assertEqual(self.pack()["rejected"], 2)
        self.assertIn("not JSON", self.rejects()[0]["reason"])
        self.assertIn("not a whole number: 'cat'", self.rejects()[1]["reason"])


class Arrays(Base):
    def test_types_and_versions(self):
        for t in ["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8", "?"]:
            dst = self.dir / ("o" + t.strip("<?") + str(len(t)))
            a = np.arange(12).reshape(3, 4).astype(t)
            for i, version in enumerate([(1, 0), (2, 0), (3, 0)]):
                self.put(f"{i}.npy", npy(a, version))
            self.assertEqual(self.pack(dst=dst)["records"], 3, t)
            self.assertIn(a.tobytes(), self.shard_bytes(dst))

    def test_zero_dimensions_and_no_items(self):
        self.put("1.npy", npy(np.array(5, "<f4")))
        self.put("2.npy", npy(np.zeros((0, 3), "<f4")))
        self.assertEqual(self.pack()["records"], 2)

    def rejected(self, data, words):
        self.put("1.npy", npy(np.zeros(3, "<f4")))
        self.put("2.npy", data)
        self.assertEqual(self.pack()["rejected"], 1)
        self.assertIn(words, self.rejects()[0]["reason"] + self.rejects()[0].get("hint", ""))

    def test_fortran_order(self):
        self.rejected(npy(np.asfortranarray(np.zeros((3, 4), "<f4"))), "ascontiguousarray")

    def test_big_endian(self):
        self.rejected(npy(np.zeros(3, ">f4")), "newbyteorder")

    def test_complex_numbers(self):
        self.rejected(npy(np.zeros(3, "<c8")), "'<c8'")

    def test_records(self):
        self.rejected(npy(np.zeros(3, [("a", "<f4")])), "not taken")

    def test_another_type_than_the_first(self):
        self.rejected(npy(np.zeros(3, "<f8")), "array of f64; the others are f32")

    def test_cut_short(self):
        self.rejected(npy(np.zeros(300, "<f4"))[:-1], "the array needs 1200 bytes")

    def test_bytes_after_the_array(self):
        self.rejected(npy(np.zeros(3, "<f4")) + b"x", "1 bytes after")

    def test_size_that_does_not_fit(self):
        good = npy(np.zeros(3, "<f4"))
        self.rejected(good.replace(b"(3,), }", b"(9223372036854775807, 9), }"[:7]), "")

    def test_lies_in_the_header(self):
        head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
        body = head % b"9223372036854775807, 9223372036854775807"
        self.rejected(body.ljust(128)[:-1] + b"\n", "does not fit")


class TarBase(Base):
    def tar(self, name, members, format=tarfile.USTAR_FORMAT):
        path = self.src / name
        with tarfile.open(path, "w", format=format) as t:
            for member, data in members:
                info = tarfile.TarInfo(member)
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
        return path

    def sample(self, i, prefix=""):
        return [(f"{prefix}{i:06}.jpg", jpeg(i)), (f"{prefix}{i:06}.cls", b"%d" % (i % 3)),
                (f"{prefix}{i:06}.seg.npy", npy(np.full(5, i, "<u2")))]


class WebDataset(TarBase):
    def test_members_with_one_key_are_one_record(self):
        path = self.tar("d.tar", sum([self.sample(i) for i in range(5)], []))
        r = self.run_pack(src=path)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("packed 5 of 5", r.stdout)
        self.assertIn("image (image) label (i64) seg (tensor)", r.stdout)
        self.assertIn(jpeg(4), self.shard_bytes())

    def test_braces_folder_and_list_are_the_same(self):
        paths = [self.tar(f"d-{k:03}.tar", sum([self.sample(i + 3 * k) for i in range(3)], []))
                 for k in range(3)]
        one = self.pack(dst=self.dir / "1")
        two = self.pack(src=f"{self.src}/d-{{000..002}}.tar", dst=self.dir / "2")
        three = self.pack(src=paths, dst=self.dir / "3")
        four = self.pack(src=f"{self.src}/d-{{000,001,002}}.tar", dst=self.dir / "4")
        self.assertEqual(one["records"], 9)
        self.assertEqual({one["digest"], two["digest"], three["digest"]}, {four["digest"]})

    def test_same_key_in_the_next_tar_is_another_record(self):
        self.tar("a.tar", self.sample(0))
        self.tar("b.tar", self.sample(0))
        self.assertEqual(self.pack()["records"], 2)

    def test_long_names_in_every_tar_format(self):
        for k, format in enumerate([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]):
            prefix = "p" * 90 + "/" + "q" * 50 + "/"
            if format != tarfile.USTAR_FORMAT:
                prefix += "é" * 200 + "/"
            path = self.tar(f"{k}.tar", self.sample(1, prefix), format)
            self.assertEqual(self.pack(src=path, dst=self.dir / str(k))["records"], 1)

    def test_two_members_for_one_field(self):
        path = self.tar("d.tar", [("1.jpg", jpeg(1)), ("1.jpeg", jpeg(2))])
        self.refused(["1.jpg", "1.jpeg", "'image'"], src=path)

    def test_cut_short(self):
        path = self.tar("d.tar", sum([self.sample(i) for i in range(5)], []))
        path.write_bytes(path.read_bytes()[:3000])
        self.refused(["d.tar", "ends inside", "offset"], src=path)

    def test_damaged_header(self):
        path = self.tar("d.tar", sum([self.sample(i) for i in range(5)], []))
        data = bytearray(path.read_bytes())
        data[2 * 512 + 512 + 20] ^= 1
        path.write_bytes(data)
        self.refused("checksum is wrong", src=path)

    def test_not_a_tar(self):
        self.refused("not a tar file", src=self.put("d.tar", os.urandom(4096)))

    def test_compressed(self):
        self.refused("gunzip", src=self.put("d.tar.gz", b"\x1f\x8b" + os.urandom(600)))


class Hostile(TarBase):
    """Damaged bytes end in a reject or an error, never in a crash or a hang."""

    def tries(self, good, name, count=40):
        rng = np.random.default_rng(len(name))
        binary = os.environ.get("HEADRACE_ASAN_BIN", BIN)
        for i in range(count):
            data = bytearray(good)
            for _ in range(int(rng.integers(1, 6))):
                at = int(rng.integers(len(data)))
                data[at] = int(rng.integers(256))
            if i % 4 == 0:
                del data[int(rng.integers(len(data))):]
            path = self.put(name, bytes(data))
            r = subprocess.run([binary, "pack", str(path if name != "x.npy" else self.src),
                                str(self.dir / f"{name}{i}"), "--json"],
                               capture_output=True, timeout=60)
            self.assertIn(r.returncode, [0, 2, 3], r.stderr)
            self.assertNotIn(b"Sanitizer", r.stderr)

    def test_tars(self):
        path = self.tar("x.tar", self.sample(0, "é" * 120 + "/") + self.sample(1), tarfile.PAX_FORMAT)
        good = path.read_bytes()
        self.tries(good[:good.rfind(b"\xd9") + 512], "x.tar", 60)

    def test_pax_lines_that_measure_themselves_wrong(self):
        binary = os.environ.get("HEADRACE_ASAN_BIN", BIN)
        for n, line in enumerate((b"\n\n\n\n\n5 x" + b"y" * 5000, b"     5 x\n", b"+9 path=x\n", b"00005 \n", b"5 x=\n",
                                  b"-1 path=x\n", b"99999999999999999999 path=x\n", b"9 path=x", b"", b"10 path=xy\n10 p")):
            header = tarfile.TarInfo("pax")
            header.type, header.size = tarfile.XHDTYPE, len(line)
            member = tarfile.TarInfo("0.txt")
            member.size = 4
            blocks = header.tobuf(tarfile.USTAR_FORMAT) + line.ljust(-len(line) % 512 + len(line), b"\0")
            self.put("x.tar", blocks + member.tobuf(tarfile.USTAR_FORMAT) + b"text".ljust(512, b"\0") + b"\0" * 1024)
            r = subprocess.run([binary, "pack", str(self.src / "x.tar"), str(self.dir / f"d{n}")], capture_output=True, text=True, timeout=60)
            good = line in (b"", b"5 x=\n")
            self.assertEqual(r.returncode, 0 if good else 2, (line[:20], r.stderr))
            self.assertEqual("malformed" in r.stderr, not good, (line[:20], r.stderr))

    def test_arrays(self):
        self.put("good.npy", npy(np.zeros(3, "<f4")))
        self.tries(npy(np.zeros((2, 3), "<f4")), "x.npy", 60)

    def test_lines(self):
        self.tries(b"".join(b'{"a": %d, "b": [1, {"c": "d\\u00e9\\""}], "c": "text", "d": 1e5}\n' % i
                            for i in range(4)), "x.jsonl", 60)

    def test_pictures(self):
        self.put("a/good.jpg", jpeg(0))
        rng = np.random.default_rng(5)
        for i in range(200):
            data = bytearray(jpeg(i))
            for _ in range(4):
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
            self.put(f"a/{i}.jpg", bytes(data))
        r = self.pack("--verify-media")
        self.assertEqual(r["records"] + r["rejected"], 201)


if __name__ == "__main__":
    unittest.main()
