"""Several trainers on one stream, several loaders in one process, and loaders across fork and threads."""
import json
import multiprocessing
import os
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
            # The second joins where the stream is: what was published before is not for it.
            rows = lockstep([a, b], 16)
            assert rows[0] == want[:16]
            at = want.index(rows[1][0])
            assert len(rows[1]) > 8 and rows[1] == want[at:at + len(rows[1])]
            batch = next(iter(a))
            assert not batch["image"].flags.writeable and not batch.records.flags.writeable
            with pytest.raises(ValueError):
                batch["image"][:] = 0
            maps = Path("/proc/self/maps").read_text()
            assert [line.split()[1] for line in maps.splitlines() if "headrace" in line and "memfd" in line]


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
            with headrace.Loader(sidecar.address, shared=True) as b:
                with pytest.raises(headrace.BusyError, match="others read"):
                    b.load_state_dict({"epoch": 3, "step": 0} and a.state_dict())
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
