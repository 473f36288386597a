"""The training loop of tools/demo: it learns, it proves its checkpoint, and it ends in time."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import feed  # noqa: E402


@pytest.fixture
def pipeline(tmp_path):
    text = feed.run("init", feed.synth("captions", 200)).stdout
    path = tmp_path / "pipeline.yaml"
    path.write_text(re.sub(r"(?m)^batch: .*", "batch: 8", text))
    return path


def train(pipeline, *words):
    r = subprocess.run([sys.executable, ROOT / "tools" / "demo_train.py", pipeline, *words], capture_output=True,
                       text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert r.returncode == 0, r.stderr
    assert "with the same records" in r.stdout
    return [float(x) for x in re.search(r"(\d+) steps.*loss (\S+) -> (\S+)", r.stdout).groups()]


def test_it_learns_from_all_fields(pipeline):
    _, first, last = train(pipeline, "--steps", "150", "--seconds", "100")
    assert last < first - 0.3


def test_it_ends_in_time(pipeline):
    assert train(pipeline, "--steps", "1000000", "--seconds", "0.5")[0] < 1000000


@pytest.mark.parametrize("records, batch", ((3, 1), (100, 8), (400, 8)))
def test_the_batch_of_a_demo_is_small_and_fits(tmp_path, records, batch):
    line = next(x for x in (ROOT / "tools" / "demo").read_text().splitlines() if x.startswith("sed -i"))
    path = tmp_path / "pipeline.yaml"
    path.write_text(feed.run("init", feed.synth("images", records, "--width", 96, "--height", 80)).stdout)
    subprocess.run(["bash", "-euc", line], env={**os.environ, "work": str(tmp_path)}, check=True)
    assert f"global batch {batch}" in feed.run("check", path).stdout
