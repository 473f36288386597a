"""A short run of tests/chaos.py; longer ones are for whoever has the time (HR_CHAOS_KILLS)."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("HR_CHAOS_KILLS", "20"))


@pytest.mark.parametrize("mode, kills", [("shared", KILLS), ("private", KILLS // 2)])
def test_batches_are_the_same_whatever_is_killed(mode, kills):
    args = [sys.executable, ROOT / "tests" / "chaos.py", "--seed", "1", "--kills", str(kills)]
    r = subprocess.run(args + (["--private"] if mode == "private" else []), capture_output=True, text=True,
                       timeout=120 + 6 * kills)
    print(r.stdout)
    assert r.returncode == 0, r.stdout + r.stderr
    assert f"{kills} kills survived" in r.stdout and "equal" in r.stdout
