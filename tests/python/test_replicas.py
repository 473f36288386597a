"""Several trainers on one stream, several loaders in one process, and loaders across fork and threads."""
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

AUGMENTED = {"image": {"ops": [{"random_resized_crop": 48}, "hflip"]}, "label": None}


def reference(keys, count):
    with headrace.Loader(keys) as loader:
        return feed.take(loader, count)


def lockstep(loaders, count):
    """Each takes a batch in turn: rows of each."""
    rows = [[] for _ in loaders]
    while len(rows[0]) < count:
        iters = [iter(loader) for loader in loaders]
        while len(rows[0]) < count:
            try:
                for it, out in zip(iters, rows):
                    batch = next(it)
                    out.append((batch.epoch, batch.step, feed.digest(batch)))
                    batch = None
            except StopIteration:
                break
    return rows


def test_replicas_get_the_same_batches():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 30)
    with feed.Sidecar(keys) as sidecar:
        with headrace.Loader(sidecar.address, shared=True) as a, headrace.Loader(sidecar.address, shared=True) as b:
            rows = lockstep([a, b], 16)
            assert rows[0] == rows[1] == want[:16]
            batch = next(iter(a))
            assert not batch["image"].flags.writeable and not batch.records.flags.writeable
            with pytest.raises(ValueError):
                batch["image"][:] = 0
            maps = Path("/proc/self/maps").read_text()
            assert [line.split()[1] for line in maps.splitlines() if "headrace" in line and "memfd" in line]


def shared(sidecar, **kw):
    return headrace.Loader(sidecar.address, shared=True, **kw)


@pytest.mark.parametrize("head_start", [1, 2, 5, 13])
@pytest.mark.parametrize("slots", [2, 3])
def test_a_replica_that_comes_late_gets_all_from_the_beginning(head_start, slots):
    """And the one that was there first goes on where it was."""
    keys = feed.small(fields=AUGMENTED, slots=slots)
    want = reference(keys, 40)
    with feed.Sidecar(keys) as sidecar, shared(sidecar) as a:
        ours = feed.take(a, head_start)
        with shared(sidecar) as b:
            theirs = feed.take(b, head_start)
            assert theirs == want[:head_start]
            both = lockstep([a, b], 6)
            assert both[0] == both[1] == want[head_start:head_start + 6]
            if slots > 2:
                held = next(iter(a))  # taken and in use while another one comes
                digest = feed.digest(held)
                with shared(sidecar, state=b.state_dict()) as c:
                    assert feed.take(c, 2) == want[head_start + 6:head_start + 8]
                assert feed.digest(held) == digest == want[head_start + 6][2]
                del held
                ours.append(want[head_start + 6])
        at = head_start + 6 + (slots > 2)
        assert feed.take(a, 5) == want[at:at + 5]
    assert ours[:head_start] == want[:head_start]


def test_replicas_with_states_of_their_own():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 40)
    with headrace.Loader(keys) as alone:
        states = [alone.state_dict()]
        for _ in range(3):
            for batch in alone:
                batch = None
                states.append(alone.state_dict())
    with feed.Sidecar(keys) as sidecar:
        for at in ((5, 0), (0, 5), (3, 11, 7), (20, 0, 9)):
            loaders = [shared(sidecar, state=states[i]) for i in at]
            results = [None] * len(at)

            def work(n):
                results[n] = feed.take(loaders[n], 24 - at[n])

            threads = [threading.Thread(target=work, args=(n,)) for n in range(len(at))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert results == [want[i:24] for i in at]
            for loader in loaders:
                loader.close()


def test_what_a_replica_holds_outlives_a_seek_that_was_refused():
    """The others go on at once, in the slots that it had; its arrays must not change under it."""
    keys = feed.small(fields=AUGMENTED, slots=3)
    want = reference(keys, 40)
    with feed.Sidecar(keys) as sidecar, shared(sidecar) as b:
        ours = []
        for round in range(8):
            with shared(sidecar, join_now=True) as a:
                held = next(iter(a))
                digest = feed.digest(held)
                assert (held.epoch, held.step, digest) == want[4 * round]
                with pytest.raises(headrace.StateError):
                    a.load_state_dict({"headrace_state": 1, "nonsense": round})
                ours += feed.take(b, 4)  # over each slot
                assert feed.digest(held) == digest
                del held
        assert ours == want[:32]


def test_replicas_are_moved_one_after_the_other():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 60)
    with feed.Sidecar(keys) as sidecar, shared(sidecar) as a, shared(sidecar) as b:
        lockstep([a, b], 3)
        state = a.state_dict()
        lockstep([a, b], 4)
        for loader in (a, b):
            loader.load_state_dict(state)
        rows = lockstep([a, b], 9)
        assert rows[0] == rows[1] == want[3:12]
        for loader in (a, b):
            loader.set_epoch(5)
        rows = lockstep([a, b], 9)
        assert rows[0] == rows[1] == want[40:49]
        assert a.state_dict() == b.state_dict()
        b.set_epoch(1)  # alone: the other one waits where it is
        assert feed.take(b, 41) == want[8:49]
        rows = lockstep([a, b], 4)
        assert rows[0] == rows[1] == want[49:53]


def test_the_hindmost_leaves_and_nobody_follows_its_way():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 60)
    with feed.Sidecar(keys) as sidecar, shared(sidecar) as a:
        assert feed.take(a, 40) == want[:40]
        before = a.stats()["batches"]
        with shared(sidecar) as b:
            assert feed.take(b, 2) == want[:2]
        assert feed.take(a, 10) == want[40:50]
        assert a.stats()["batches"] - before < 40  # not through all that it had already


def test_a_job_joins_where_another_one_is():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 60)
    with feed.Sidecar(keys) as sidecar, shared(sidecar, join_now=True) as a:
        feed.take(a, 20)
        with shared(sidecar, join_now=True) as b:
            rows = lockstep([b, a], 5)
            assert rows[0] == rows[1] == want[20:25]
            state = b.state_dict()
        with shared(sidecar, join_now=True, state=state) as b:
            rows = lockstep([b, a], 5)
            assert rows[0] == rows[1] == want[25:30]


def test_replicas_reach_the_end_of_the_run_each_on_its_own():
    keys = feed.small(epochs=2)
    with feed.Sidecar(keys) as sidecar, shared(sidecar) as a:
        assert len(feed.take(a, 99)) == 16
        with shared(sidecar) as b:
            assert len(feed.take(b, 10)) == 10
            with shared(sidecar, state=b.state_dict()) as c:
                rows = lockstep([b, c], 6)
                assert rows[0] == rows[1] and len(rows[0]) == 6
                assert feed.take(b, 1) == feed.take(c, 1) == []
        assert feed.take(a, 1) == []


# Takes batches in step with its replicas: none goes on before all have the same batch.
MEMBER = """
import json, sys, feed, headrace
state = json.loads(sys.argv[2])
with headrace.Loader(sys.argv[1], shared=True, state=state or None, timeout=30) as loader:
    while True:
        for batch in loader:
            row = (batch.epoch, batch.step, feed.digest(batch))
            batch = None
            print(json.dumps([row, loader.state_dict()]), flush=True)
            if not sys.stdin.readline():
                sys.exit(0)
"""


def deserted(path):
    """The last engine of a killed supervisor has ended too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        try:
            sock.connect(path)
        except OSError:
            return True
    return False


def test_a_group_in_step_survives_the_death_of_any():
    """Members, engine and sidecar are killed at random; what each gets is the one sequence, and members never
    wait for each other for ever."""
    import random
    import subprocess

    rng = random.Random(11)
    keys = feed.small(fields=AUGMENTED, slots=3)
    count = 48
    want = reference(keys, count)
    kills = {"member": 0, "engine": 0, "sidecar": 0}
    with feed.Sidecar(keys) as sidecar:
        def start(state):
            return feed.trainer(MEMBER, sidecar.address, json.dumps(state), stdin=subprocess.PIPE)

        members, states = [start(None) for _ in range(3)], [None] * 3
        try:
            for step in range(count):
                what = rng.choice(("nothing", "nothing", "member", "engine", "sidecar"))
                if step > 0 and what != "nothing":
                    kills[what] += 1
                    if what == "member":
                        i = rng.randrange(3)
                        members[i].kill()
                        members[i].wait()
                        members[i] = start(states[i])
                    elif what == "engine":
                        assert feed.eventually(lambda: feed.children(sidecar.pid))
                        os.kill(sidecar.engine, signal.SIGKILL)
                    else:
                        sidecar.kill()
                        assert feed.eventually(lambda: deserted(sidecar.path))
                        sidecar.start()
                for i, member in enumerate(members):
                    line = member.stdout.readline()
                    assert line, (step, i, what, sidecar.log.read_text()[-3000:])
                    row, states[i] = json.loads(line)
                    assert tuple(row) == want[step], (step, i, what)
                for i, member in enumerate(members):
                    try:
                        member.stdin.write("\n")
                        member.stdin.flush()
                    except BrokenPipeError:
                        raise AssertionError(f"member {i} is gone at step {step}")
        finally:
            for member in members:
                member.kill()
                member.wait()
                member.stdin.close()
                member.stdout.close()
    print(f"{kills} over {count} steps of 3 replicas")
    assert min(kills.values()) > 3


def test_a_slow_replica_is_detached_where_that_is_asked_for():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 30)
    with feed.Sidecar(keys, "--detach-slow", "0.6") as sidecar, shared(sidecar) as a, shared(sidecar) as b:
        held = [next(iter(b)) for _ in range(2)]
        begin = time.monotonic()
        assert feed.take(a, 30) == want
        assert 0.5 < time.monotonic() - begin < 10
        del held
        with pytest.raises(headrace.DetachedError, match="kept its batches for 0.6 s"):
            feed.take(b, 20)
        assert feed.take(a, 1)
    assert "a replica is detached" in sidecar.log.read_text()


def test_a_slow_replica_is_waited_for_and_a_dead_one_is_not():
    keys = feed.small(fields=AUGMENTED)
    with feed.Sidecar(keys) as sidecar:
        with headrace.Loader(sidecar.address, shared=True, timeout=10) as a:
            ours, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    b = headrace.Loader(sidecar.address, shared=True)
                    os.write(theirs, b"a")
                    held = [next(iter(b))]
                    os.write(theirs, b"x" * len(held))
                    time.sleep(60)
                finally:
                    os._exit(1)
            os.close(theirs)
            assert os.read(ours, 1) == b"a"
            feed.take(a, 3)
            assert os.read(ours, 1) == b"x"
            os.close(ours)
            done = threading.Event()
            threading.Timer(0.8, os.kill, [pid, signal.SIGKILL]).start()
            begin = time.monotonic()
            rows = feed.take(a, 30)
            waited = time.monotonic() - begin
            done.set()
            os.waitpid(pid, 0)
            assert waited > 0.4
            assert [r[:2] for r in rows] == [(i // 8, i % 8) for i in range(3, 33)]
            assert feed.eventually(lambda: a.stats()["ready"] == a.slots)


def test_a_stream_is_shared_or_not():
    with feed.Sidecar(feed.small()) as sidecar:
        with headrace.Loader(sidecar.address, shared=True) as a:
            with pytest.raises(headrace.BusyError):
                headrace.Loader(sidecar.address, timeout=0.4)
            assert len(feed.take(a, 3)) == 3
        with headrace.Loader(sidecar.address) as alone:
            assert next(iter(alone))["image"].flags.writeable


def test_two_private_loaders_in_one_process():
    keys, other = feed.small(fields=AUGMENTED), feed.small(seed=8)
    want = reference(keys, 20), reference(other, 20)
    with headrace.Loader(keys) as a, headrace.Loader(other) as b:
        rows = lockstep([a, b], 20)
        assert len(feed.children()) == 2
    assert tuple(rows) == want
    assert feed.children() == []


def test_training_and_validation_in_turn():
    train, valid = feed.small(), feed.small(order="none", last="keep", records=61)
    with headrace.Loader(train) as t, headrace.Loader(valid) as v:
        for epoch in range(3):
            assert sum(b.count for b in t) == 64
            assert sorted(r for b in v for r in b.records.tolist()) == list(range(61))


def test_loaders_in_threads():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 40)
    results = {}

    def work(i):
        with headrace.Loader(keys) as loader:
            results[i] = feed.take(loader, 40)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[i] == want for i in range(4))
    assert feed.children() == []


def in_worker(args):
    address, rank, world = args
    with headrace.Loader(address, rank=rank, world=world) as loader:
        return [b.records.tolist() for _, b in zip(range(8), loader)]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_ranks_as_processes_of_multiprocessing(method, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{feed.ROOT / 'python'}:{feed.ROOT / 'tests' / 'lib'}:{Path(__file__).parent}")
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    keys = feed.small()
    with headrace.Loader(keys) as whole, feed.Sidecar(keys) as sidecar:  # one open in the parent all the while
        want = [b.records.tolist() for b in whole]
        with multiprocessing.get_context(method).Pool(2) as pool:
            parts = pool.map(in_worker, [(sidecar.address, rank, 2) for rank in range(2)], chunksize=1)
        assert [a + b for a, b in zip(*parts)] == want
        assert len(feed.take(whole, 3)) == 3


def test_a_fork_during_training_leaves_both_sound():
    keys = feed.small(fields=AUGMENTED)
    want = reference(keys, 60)
    with headrace.Loader(keys) as loader:
        rows = []
        while len(rows) < 60:
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                if len(rows) % 20 == 0:
                    pid = os.fork()
                    if pid == 0:  # what the child drops and closes is the parent's still
                        code = 1
                        try:
                            batch.release()
                            loader.close()
                            del batch, loader
                            with headrace.Loader(keys) as mine:
                                code = 0 if feed.take(mine, 10) == want[:10] else 2
                        finally:
                            os._exit(code)
                    assert os.waitpid(pid, 0)[1] == 0
                    assert (batch.epoch, batch.step, feed.digest(batch)) == rows[-1]
        assert rows[:60] == want


def test_a_relative_dataset_starts_at_the_file_s_folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    os.symlink(feed.synth("images", 64, "--width", 96, "--height", 80), tmp_path / "data" / "d.hrd")
    keys = {**feed.small(), "dataset": "data/d.hrd"}
    path = feed.write_conf(tmp_path / "train.yaml", keys)
    want = reference(feed.small(), 5)
    assert reference(str(path), 5) == want and reference(path, 5) == want
    monkeypatch.chdir(tmp_path)
    assert reference("train.yaml", 5) == want
    assert reference(keys, 5) == want  # dicts: the working directory


def test_what_init_prints_trains(tmp_path):
    for kind, n in (("mixed", 12), ("captions", 40), ("text", 100), ("speech", 12)):
        dataset = feed.synth(kind, n)
        text = feed.run("init", dataset).stdout
        (tmp_path / f"{kind}.yaml").write_text(text)
        with headrace.Loader(tmp_path / f"{kind}.yaml") as loader:
            batch = next(iter(loader))
            described = json.loads(feed.run("check", tmp_path / f"{kind}.yaml", "--json").stdout)
            assert batch.count > 0 and described
            for name in batch:
                assert feed.value_bytes(batch[name]) is not None
