"""headrace rjpeg: files repacked in memory, with sizes and times, and those that are not."""
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ.get("HEADRACE_BIN", str(ROOT / "build" / "tools" / "headrace"))


def run(*args):
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    r = run("synth", folder / "out", "--kind", "images", "--as", "folder", "-n", 6, "-q", "--width", 120, "--height", 90)
    assert r.returncode == 0, r.stderr
    files = sorted((folder / "out").rglob("*.jpg"))
    assert len(files) == 6
    return files


def test_every_file_is_measured(pictures):
    r = run("rjpeg", "--json", "-n", 1, *pictures)
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout)
    assert report["total"]["repacked"] == 6
    assert report["total"]["jpeg_bytes"] == sum(f.stat().st_size for f in pictures)
    assert report["total"]["packed_bytes"] == sum(f["packed_bytes"] for f in report["files"])
    assert all(f["pixels"] == 120 * 90 and f["decode_us"] > 0 for f in report["files"])


def test_a_damaged_file_is_named_with_its_reason(pictures, tmp_path):
    bad = tmp_path / "cut.jpg"
    bad.write_bytes(pictures[0].read_bytes()[:700])
    r = run("rjpeg", pictures[1], bad)
    assert r.returncode == 1
    assert f"{bad}: not repacked: " in r.stdout and "1 of 2 files" in r.stdout


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    r = run("rjpeg", tmp_path / "none.jpg")
    assert r.returncode == 3 and "none.jpg" in r.stderr
