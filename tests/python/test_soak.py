"""A trainer that does what trainers do, for a while: memory, descriptors and threads of both sides stay as they
are. HR_SOAK_SECONDS sets how long (30)."""
import json
import os
import signal
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import churn  # noqa: E402
import feed  # noqa: E402

SECONDS = float(os.environ.get("HR_SOAK_SECONDS", "30"))


@pytest.fixture(autouse=True)
def as_long_as_asked(limited_in_time):
    """The usual limit counts from the end of the time that was asked for."""
    signal.alarm(signal.alarm(0) + int(SECONDS))

# Prints its own and the sidecar's facts once a second: batches, then RSS in kB, descriptors, threads of each.
TRAINER = """
import gc, json, random, sys, time, feed, headrace
address, engine, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rng = random.Random(5)

def facts():
    ours = "self"
    return [feed.rss_kb(ours), feed.fds(ours), feed.threads(ours), feed.rss_kb(engine), feed.fds(engine),
            feed.threads(engine)]

end, due, batches, held, rows = time.monotonic() + seconds, 0, 0, [], 0
with headrace.Loader(address) as loader:
    while time.monotonic() < end:
        for batch in loader:
            batches += 1
            rows += sum(len(batch[name]) for name in batch)
            held.append(batch["image"] if rng.random() < 0.5 else batch)
            batch = None
            while len(held) > rng.randrange(4):
                held.pop(rng.randrange(len(held)))
            if batches % 50 == 0:
                state = loader.state_dict()
                loader.stats()
            if batches % 200 == 0:
                loader.load_state_dict(state if rng.random() < 0.5 else {})
            if batches % 350 == 0:
                loader.set_epoch(rng.randrange(1000))
            if time.monotonic() >= due:
                due = time.monotonic() + 1
                gc.collect()
                print(json.dumps([batches, *facts()]), flush=True)
            if time.monotonic() >= end:
                break
"""


def test_memory_descriptors_and_threads_stay_flat():
    keys = feed.conf(feed.synth("captions", 256, "--width", 160, "--height", 120), batch=16, slots=6, last="wrap",
                     fields={"image": {"ops": [{"random_resized_crop": 96}, "hflip"]}, "caption": None})
    with feed.Sidecar(keys, "-q") as sidecar:
        process = feed.trainer(TRAINER, sidecar.address, sidecar.engine, SECONDS)
        rows = [json.loads(line) for line in process.stdout]
        assert process.wait(30) == 0 and sidecar.alive()
    warm = rows[max(2, len(rows) // 5)]
    last = rows[-1]
    print(f"{last[0]} batches in {SECONDS:.0f} s; batches, RSS kB, descriptors, threads of trainer and engine: "
          f"{warm} .. {last}")
    assert last[0] > 100
    for name, side in (("trainer", 1), ("engine", 4)):
        grown = last[side] - warm[side]
        assert grown < 1024, (name, "RSS", grown, rows)
        assert last[side + 1] <= warm[side + 1] and last[side + 2] <= warm[side + 2], (name, rows)


def test_trainers_that_come_and_go_leave_the_sidecar_as_it_was(tmp_path):
    seed, every = int(os.environ.get("HR_SOAK_SEED", "1")), min(60, SECONDS / 40)
    with feed.Sidecar(churn.keys(), "-q") as sidecar:
        engine = sidecar.engine
        run = churn.Churn(sidecar, seed, tmp_path, churn.plan())
        rows = run.go(SECONDS / 4 if SECONDS < 120 else SECONDS, every, lambda row: print(*row, flush=True))
        assert sidecar.alive() and sidecar.engine == engine, sidecar.log.read_text()[-2000:]
        lost = run.facts()[-1]
    # RSS, anonymous, descriptors and threads of the engine, RSS and descriptors of the supervisor.
    warm, last = rows[max(2, len(rows) // 5)][2:8], rows[-1][2:8]
    print(f"seed {seed}: {run.count} in {rows[-1][0]} s: {warm} .. {last}, {rows[-1][9]} batches of the steady one")
    assert lost == 0 and all(row[8] == 0 for row in rows), rows
    assert last[0] - warm[0] < 2048 and last[1] - warm[1] < 2048 and last[4] - warm[4] < 1024, rows
    assert last[2] <= warm[2] and last[3] == warm[3] and last[5] <= warm[5], rows
    assert rows[-1][9] > rows[2][9]
