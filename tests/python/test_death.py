"""Trainers and sidecars that are killed: nothing is missing, repeated, lost or left behind."""
import json
import os
import random
import select
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

KILLS = int(os.environ.get("HR_KILLS", "50"))
AUGMENTED = {"image": {"ops": [{"random_resized_crop": 48}, "hflip"]}, "label": None}


def reference(keys, count):
    with headrace.Loader(keys) as loader:
        return feed.take(loader, count)


# ---- the trainer dies ----


def forked_trainer(address, state, seed):
    """A trainer that reports each batch and the state after it as a line: (pid, pipe)."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    try:
        rng = random.Random(seed)
        loader = headrace.Loader(address, state=state, timeout=20)
        held = []
        while True:
            for batch in loader:
                row = [batch.epoch, batch.step, feed.digest(batch)]
                os.write(theirs, (json.dumps([row, loader.state_dict()]) + "\n").encode())
                held.append(batch)
                batch = None
                while len(held) > rng.randrange(3):
                    held.pop(rng.randrange(len(held)))
                time.sleep(rng.random() / 500)
    except BaseException as e:  # shown by the parent
        os.write(theirs, (json.dumps([repr(e), None]) + "\n").encode())
    os._exit(1)


def read_all(pipe):
    parts = []
    while part := os.read(pipe, 1 << 16):
        parts.append(part)
    os.close(pipe)
    return [json.loads(line) for line in b"".join(parts).split(b"\n")[:-1]]


def wait_pid(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    return False


def test_trainers_killed_at_random_moments_lose_and_repeat_nothing():
    keys = feed.small(fields=AUGMENTED)
    rng = random.Random(20)
    with feed.Sidecar(keys) as sidecar:
        rows, state, facts = [], {}, []
        for kill in range(KILLS):
            pid, pipe = forked_trainer(sidecar.address, state, kill)
            if kill % 2:  # at work, however slow this machine is; the others at whatever moment of their start
                select.select([pipe], [], [], 20)
            time.sleep(rng.choice((0.002, 0.02, 0.06)) * rng.random() + 0.0005)
            os.kill(pid, signal.SIGKILL)
            told = read_all(pipe)
            assert wait_pid(pid)
            for row, after in told:
                assert after, row
                rows.append(tuple(row))
                state = after
            assert sidecar.alive(), sidecar.log.read_text()
            facts.append((feed.fds(sidecar.engine), feed.rss_kb(sidecar.engine), feed.threads(sidecar.engine)))
        print(f"{KILLS} kills, {len(rows)} batches; fds, RSS kB, threads: {facts[9 % KILLS]} .. {facts[-1]}")
        assert len(rows) >= KILLS // 2
        assert rows == reference(keys, len(rows))
        with headrace.Loader(sidecar.address, state=state) as loader:  # every slot is there to be filled
            assert feed.eventually(lambda: loader.stats()["ready"] == loader.slots), loader.stats()
            assert feed.take(loader, 4) == reference(keys, len(rows) + 4)[-4:]
        assert feed.eventually(lambda: feed.fds(sidecar.engine) <= facts[4][0])
        assert facts[-1][1] - facts[9 % KILLS][1] < 2048 and facts[-1][2] == facts[0][2]


def test_two_ranks_of_which_one_is_killed():
    """The other rank's sequence is untouched."""
    keys = feed.small(fields=AUGMENTED)
    with feed.Sidecar(keys) as sidecar:
        with headrace.Loader(sidecar.address, rank=1, world=2) as loader:
            want = feed.take(loader, 60)
        os.environ.update(RANK="0", WORLD_SIZE="2")
        try:
            with headrace.Loader(sidecar.address, rank=1, world=2) as loader:
                rows, state = [], {}
                for kill in range(6):
                    pid, pipe = forked_trainer(sidecar.address, state, kill)
                    for batch in loader:
                        rows.append((batch.epoch, batch.step, feed.digest(batch)))
                        time.sleep(0.003)
                    os.kill(pid, signal.SIGKILL)
                    state = ([{}] + [after for _, after in read_all(pipe)])[-1] or state
                    assert wait_pid(pid)
        finally:
            del os.environ["RANK"], os.environ["WORLD_SIZE"]
        assert rows == want[:len(rows)]


# ---- the sidecar dies ----


def test_a_killed_sidecar_that_is_restarted_is_a_pause():
    keys = feed.small(fields=AUGMENTED)
    rng = random.Random(21)
    with feed.Sidecar(keys) as sidecar, headrace.Loader(sidecar.address, timeout=30) as loader:
        rows, kills = [], 0
        kept = None
        while kills < 6:
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                if rng.random() < 0.05 and kills < 6:
                    if kept is None:
                        kept, before = batch, feed.digest(batch)
                    sidecar.kill()
                    kills += 1
                    threading.Timer(rng.random() / 4, sidecar.start, [False]).start()
                batch = None
        assert feed.digest(kept) == before
        kept = None
        assert rows == reference(keys, len(rows))
        assert loader.state_dict()["samples"] == len(rows) * 8
    print(f"{kills} kills of the sidecar, {len(rows)} batches")


def test_a_restarted_sidecar_feeds_within_a_second_of_being_ready():
    """However long it was away: trainers look for it more and more rarely, but often enough."""
    keys = feed.small(fields=AUGMENTED)
    gaps = []
    with feed.Sidecar(keys) as sidecar, headrace.Loader(sidecar.address, timeout=30) as loader:
        feed.take(loader, 3)
        for away in (0, 0.1, 0.3, 0, 1, 2, 0, 0.7, 0.2):
            sidecar.kill()
            ready = []
            starter = threading.Timer(away, lambda: ready.append(sidecar.start() and time.monotonic()))
            starter.start()
            while not ready:  # what was ready still comes; then it waits
                feed.take(loader, 1)
            starter.join()
            feed.take(loader, 1)
            gaps.append(time.monotonic() - ready[0])
    print(f"first batch after the sidecar was ready again: median {sorted(gaps)[4] * 1e3:.0f} ms, "
          f"longest {max(gaps) * 1e3:.0f} ms")
    assert sorted(gaps)[4] < 1 and max(gaps) < 3


@pytest.mark.parametrize("private", [False, True])
def test_a_killed_engine_is_a_pause(private):
    """The supervisor starts another one; the trainer's sequence goes on."""
    keys = feed.small(fields=AUGMENTED)
    rng = random.Random(23)
    with feed.Sidecar(keys) as sidecar, headrace.Loader(keys if private else sidecar.address, timeout=20) as loader:
        supervisor = next(p for p in feed.children() if p != sidecar.pid) if private else sidecar.pid
        rows, kills = [], 0
        while kills < 6:
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                if rng.random() < 0.05 and kills < 6:
                    (engine,) = feed.children(supervisor)
                    os.kill(engine, rng.choice((signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS)))
                    assert feed.eventually(lambda: feed.children(supervisor) not in ([], [engine]))
                    kills += 1
        assert feed.children(supervisor) and not feed.gone(supervisor)
    assert rows == reference(keys, len(rows))


def test_an_engine_ends_with_its_supervisor():
    with feed.Sidecar(feed.small()) as sidecar:
        engine = sidecar.engine
        sidecar.kill()
        assert feed.eventually(lambda: feed.gone(engine), 5)


def test_a_sidecar_that_does_not_come_back_is_an_error_within_the_deadline():
    with feed.Sidecar(feed.small()) as sidecar, headrace.Loader(sidecar.address, timeout=1) as loader:
        rows = feed.take(loader, 3)
        sidecar.kill()
        begin = time.monotonic()
        with pytest.raises(headrace.DisconnectedError, match="headrace serve|sidecar"):
            while True:
                rows += feed.take(loader, 1)
        assert 0.5 < time.monotonic() - begin < 5
        assert loader.state_dict()["samples"] == len(rows) * 8
        sidecar.start()
        loader.load_state_dict(loader.state_dict())  # it may come back later all the same
        assert rows + feed.take(loader, 3) == reference(feed.small(), len(rows) + 3)


def test_a_sidecar_that_comes_back_with_another_dataset_is_refused():
    with feed.Sidecar(feed.small()) as sidecar, headrace.Loader(sidecar.address, timeout=20) as loader:
        feed.take(loader, 3)
        sidecar.kill()
        feed.write_conf(sidecar.conf, feed.small(seed=9))
        sidecar.start()
        with pytest.raises(headrace.StateError, match="seed"):
            feed.take(loader, 9)
        with pytest.raises(headrace.StateError, match="seed"):
            feed.take(loader, 1)
        loader.load_state_dict({})  # so be it
        assert feed.take(loader, 9) == reference(feed.small(seed=9), 9)


def test_drain_feeds_on_and_refuses_new_trainers():
    keys = feed.small()
    with feed.Sidecar(keys, "--grace", 30) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            rows = feed.take(loader, 3)
            sidecar.process.send_signal(signal.SIGTERM)
            assert feed.eventually(lambda: not os.path.exists(sidecar.path))
            with pytest.raises(headrace.Error):
                headrace.Loader(sidecar.address, rank=0, world=2, timeout=0.3)
            rows += feed.take(loader, 20)
            assert rows == reference(keys, 23)
        assert sidecar.process.wait(10) == 0


def test_the_grace_period_ends_a_drain():
    with feed.Sidecar(feed.small(), "--grace", 0.3) as sidecar:
        with headrace.Loader(sidecar.address, timeout=1) as loader:
            feed.take(loader, 1)
            begin = time.monotonic()
            assert sidecar.kill(signal.SIGTERM) == 0
            assert time.monotonic() - begin < 5


@pytest.mark.parametrize("sig, code", [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_an_idle_sidecar_ends_at_once_and_takes_its_socket_away(sig, code):
    with feed.Sidecar(feed.small()) as sidecar:
        assert sidecar.kill(sig) == code
        assert not os.path.exists(sidecar.path)


# ---- private sidecars ----

PRIVATE = """
import json, os, sys, time, feed, headrace
loader = headrace.Loader(json.loads(sys.argv[1]))
for batch in loader:
    x = batch["image"]
    break
print(feed.children()[0], os.getpid(), flush=True)
for _ in range(int(sys.argv[2])):
    feed.take(loader, 1)
time.sleep(60)
"""


def leavings():
    here = [set(os.listdir("/dev/shm")), set(os.listdir("/tmp")), set(os.listdir("."))]
    return [{n for n in names if "headrace" in n or n.startswith(("memfd", "sem.", "hr"))} for names in here]


@pytest.mark.parametrize("how", ["kill", "term", "abort", "child of a shell", "whole session"])
def test_a_private_sidecar_ends_with_its_trainer_and_leaves_nothing(how, tmp_path):
    before = leavings()
    home = tmp_path / "home"
    home.mkdir()
    env = {name: str(home) for name in ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")}
    args = [json.dumps(feed.small()), 500]
    if how == "child of a shell":
        # The shell waits for it, and is what gets killed first.
        script = ("import subprocess, sys; p = subprocess.Popen(['sh', '-c', '\"$0\" \"$@\"; true', sys.executable, "
                  "'-c', sys.argv[1], *sys.argv[2:]]); p.wait()")
        process = feed.trainer(script, PRIVATE, *args, env=env, start_new_session=True)
    else:
        process = feed.trainer(PRIVATE, *args, env=env, start_new_session=True)
    sidecar, pid = map(int, process.stdout.readline().split())
    engine = (feed.children(sidecar) or [sidecar])[0]
    assert not feed.gone(sidecar)
    if how == "whole session":
        os.killpg(process.pid, signal.SIGKILL)
    elif how == "child of a shell":
        shell = feed.children(process.pid)[0]
        os.kill(shell, signal.SIGKILL)
        time.sleep(0.1)
        assert not feed.gone(sidecar)  # the trainer lives, and is fed
        os.kill(pid, signal.SIGKILL)
    else:
        os.kill(pid, {"kill": signal.SIGKILL, "term": signal.SIGTERM, "abort": signal.SIGABRT}[how])
    process.wait(10)
    process.stdout.close()
    assert feed.eventually(lambda: feed.gone(sidecar) and feed.gone(engine), 5)
    made = [p for p in home.rglob("*") if not p.name.startswith("headrace-feed-")]  # this library's own
    assert [p for p in made if "headrace-feed-" not in str(p)] == []
    assert [b - a for a, b in zip(before, leavings())] == [set()] * 3


def test_a_trainer_killed_while_its_sidecar_starts():
    for delay in (0.0, 0.005, 0.01, 0.02, 0.04, 0.08):
        pid = os.fork()
        if pid == 0:
            try:
                headrace.Loader(feed.small())
                time.sleep(60)
            finally:
                os._exit(1)
        begin = time.monotonic()
        while not feed.children(pid) and time.monotonic() - begin < 10:
            time.sleep(0.001)
        (sidecar, *_) = feed.children(pid)
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert feed.eventually(lambda: feed.gone(sidecar), 5), delay


def test_a_killed_private_sidecar_is_started_again_and_nothing_is_missing():
    keys = feed.small(fields=AUGMENTED)
    rng = random.Random(22)
    with headrace.Loader(keys, timeout=20) as loader:
        rows, kills = [], 0
        while kills < 5:
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                if rng.random() < 0.05 and kills < 5:
                    os.kill(feed.children()[0], signal.SIGKILL)
                    kills += 1
        assert rows == reference_in_child(keys, len(rows))
        assert len(feed.children()) == 1
    assert feed.children() == []


def reference_in_child(keys, count):
    """As reference(), while this process has children of its own to count."""
    script = ("import json, sys, feed, headrace\n"
              "with headrace.Loader(json.loads(sys.argv[1])) as loader:\n"
              "    print(json.dumps(feed.take(loader, int(sys.argv[2]))))\n")
    process = feed.trainer(script, json.dumps(keys), count)
    return [tuple(row) for row in json.loads(process.communicate(timeout=60)[0])]


def test_a_private_sidecar_that_keeps_dying_is_an_error(tmp_path, monkeypatch):
    """A binary that ends at once, as when its libraries are missing."""
    fake = tmp_path / "headrace"
    fake.write_text("#!/bin/sh\nexit 7\n")
    fake.chmod(0o755)
    monkeypatch.setenv("HEADRACE_BIN", str(fake))
    begin = time.monotonic()
    with pytest.raises(headrace.Error, match="7"):
        headrace.Loader(feed.small(), timeout=5)
    assert time.monotonic() - begin < 10 and feed.children() == []


def test_no_binary_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_BIN", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(headrace.Error, match="headrace"):
        headrace.Loader(feed.small(), timeout=5)
