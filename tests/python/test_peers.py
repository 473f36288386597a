"""The kit that runs other loaders beside Headrace, with those that need no network."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HEADRACE_BUILD", ROOT / "build"))
pytestmark = pytest.mark.skipif(not (shutil.which("taskset") and shutil.which("ninja") and (BUILD / "build.ninja").exists()),
                                reason="needs taskset, ninja and a build")


@pytest.fixture()
def kit(tmp_path):
    """The command, less the loaders: 40 small pictures, this Python, everything under tmp_path."""
    photos, rng = tmp_path / "photos", np.random.default_rng(1)
    photos.mkdir()
    for i in range(40):
        Image.fromarray(rng.integers(0, 256, (30, 40, 3), np.uint8)).resize((320, 240)).save(photos / f"{i}.jpg")
    (photos / "gray.jpg").write_bytes(b"\xff\xd8\xff\xd9")
    work = tmp_path / "tmp"
    work.mkdir()
    command = [sys.executable, ROOT / "bench" / "peers.py", "--quick", "--no-install", "--data", photos, "--cache", tmp_path / "cache",
               "--build", BUILD, "--cores", "1"]
    env = {k: v for k, v in os.environ.items() if k not in ("HEADRACE_ASAN_BIN", "HEADRACE_CPU")}
    return [str(part) for part in command], dict(env, TMPDIR=str(work)), tmp_path


def processes_with(text):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def test_loaders_take_turns_and_a_page_comes_of_it(kit):
    command, env, folder = kit
    page = folder / "page.md"
    subprocess.run([*command, "--peers", "headrace:python,headrace:keep,pillow,dali", "--out", str(page)], env=env, check=True,
                   capture_output=True, timeout=240)
    data = json.loads(page.with_suffix(".json").read_text())
    assert data["pictures"]["pictures"] == 40 and data["pictures"]["left_out"] == 1
    for name in ("headrace:python", "headrace:keep", "pillow"):
        found = data["runs"]["1"][name]
        assert len(found["slices"]) == 2 and all(s["rate"] > 0 and s["cpu_us"] > 0 and s["held_mb"] > 1 for s in found["slices"])
        assert data["entries"][name]["first"]["shape"] == [16, 3, 224, 224]
    for name in ("headrace:python", "pillow"):
        first = data["entries"][name]["first"]
        assert first["dtype"] == "float16" and abs(first["mean"]) < 1 and 0.2 < first["std"] < 2
    text = page.read_text()
    assert "Pillow + NumPy" in text and "## What did not run" in text and "No module named 'nvidia'" in text
    assert page.with_suffix(".svg").read_text().startswith("<svg")
    assert not list((folder / "tmp").iterdir()) and not processes_with(str(folder))
    subprocess.run([*command, "--clean"], env=env, check=True, timeout=60)
    assert not (folder / "cache").exists()


def test_ctrl_c_leaves_no_process_and_no_temporary_files(kit):
    command, env, folder = kit
    kit_process = subprocess.Popen([*command, "--peers", "headrace:python,pillow", "--prepare"], env=env, stderr=subprocess.PIPE, text=True)
    for line in kit_process.stderr:
        if "headrace:python: first batch" in line:
            break
    time.sleep(0.1)
    kit_process.send_signal(signal.SIGINT)
    assert kit_process.wait(60) != 0
    assert not processes_with(str(folder)) and not list((folder / "tmp").iterdir())
