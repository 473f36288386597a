"""What trainers do while they are fed: change folders, fork, use threads and signals, run out of descriptors."""
import fcntl
import os
import resource
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


def reference(keys, count):
    with headrace.Loader(keys) as loader:
        return feed.take(loader, count)


class Stopped:
    """The engine of a sidecar, which stands still meanwhile."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)

    def __exit__(self, *_):
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # the test killed it


@pytest.fixture(params=["private", "socket"])
def fed(request):
    """(loader, pid of its engine, the batches of an undisturbed run)"""
    keys = feed.small()
    want = reference(keys, 60)
    with feed.Sidecar(keys) as sidecar:
        with headrace.Loader(keys if request.param == "private" else sidecar.address, timeout=30) as loader:
            supervisor = sidecar.pid
            if request.param == "private":
                supervisor = next(p for p in feed.children() if p != sidecar.pid)
            yield loader, feed.children(supervisor)[0], want


# ---- seeks that take long ----


class Enough(Exception):
    pass


def break_off(seek, *args):
    """Tells the sidecar, which stands still, and does not wait for its answer."""
    def interrupt(*_):
        raise Enough

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.15)
    try:
        with pytest.raises(Enough):
            seek(*args)
    finally:
        signal.signal(signal.SIGALRM, before)


def states_of(keys, *counts):
    out = []
    with headrace.Loader(keys) as loader:
        taken = 0
        for count in counts:
            feed.take(loader, count - taken)
            taken = count
            out.append(loader.state_dict())
    return out


def test_the_last_seek_counts_whatever_became_of_those_before(fed):
    """The answer to one that was broken off is not taken for the answer to the next one, nor its batches for those."""
    loader, engine, want = fed
    near, far = states_of(feed.small(), 20, 40)
    feed.take(loader, 2)
    with Stopped(engine):
        for state in (near, far, near):
            break_off(loader.load_state_dict, state)
    loader.load_state_dict(far)
    assert loader.state_dict() == far
    assert feed.take(loader, 6) == want[40:46]


def test_a_seek_that_was_broken_off_takes_place_before_the_next_batch(fed):
    loader, engine, want = fed
    (state,) = states_of(feed.small(), 20)
    feed.take(loader, 2)
    with Stopped(engine):
        break_off(loader.load_state_dict, state)
    assert feed.take(loader, 4) == want[20:24]
    with Stopped(engine):
        break_off(loader.set_epoch, 6)
    assert loader.stats()["batches"]  # may hear the answer
    assert feed.take(loader, 4) == want[48:52]


def test_a_seek_that_was_broken_off_is_taken_to_the_next_engine(fed):
    loader, engine, want = fed
    (state,) = states_of(feed.small(), 20)
    feed.take(loader, 2)
    with Stopped(engine):
        break_off(loader.load_state_dict, state)
        os.kill(engine, signal.SIGKILL)
    assert feed.take(loader, 4) == want[20:24]


def test_a_seek_that_was_broken_off_and_is_refused_says_so(fed):
    loader, engine, want = fed
    (other,) = states_of(feed.small(seed=9), 3)
    feed.take(loader, 2)
    with Stopped(engine):
        break_off(loader.load_state_dict, other)
    for _ in range(2):
        with pytest.raises(headrace.StateError, match="seed"):
            feed.take(loader, 1)
    loader.set_epoch(1)
    assert feed.take(loader, 2) == want[8:10]


def test_a_seek_that_is_not_answered_in_time_is_an_error():
    with headrace.Loader(feed.small(), timeout=0.3) as loader:
        with Stopped(feed.children(feed.children()[0])[0]):
            with pytest.raises(headrace.TimeoutError):
                loader.set_epoch(4)


def test_ctrl_c_while_seeking():
    with headrace.Loader(feed.small()) as loader:
        feed.take(loader, 1)
        with Stopped(feed.children(feed.children()[0])[0]):
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            begin = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                loader.set_epoch(4)
            assert time.monotonic() - begin < 5
        assert next(iter(loader)).epoch == 4


def test_statistics_that_came_too_late_are_not_those_of_the_next_time():
    with feed.Sidecar(feed.small()) as sidecar, headrace.Loader(sidecar.address, timeout=0.3) as loader:
        assert feed.eventually(lambda: loader.stats()["ready"] == loader.slots)
        with Stopped(sidecar.engine):
            with pytest.raises(headrace.TimeoutError):
                loader.stats()
        time.sleep(0.1)  # the answer lies there
        batch = next(iter(loader))
        assert loader.stats()["leased"] == 1 and batch.count


# ---- threads, signals and forks ----


def test_others_get_their_turn_while_a_thread_waits_for_a_batch():
    """Also to close the loader; and a child that is forked meanwhile finds nothing locked."""
    with feed.Sidecar(feed.small()) as sidecar, headrace.Loader(sidecar.address) as loader:
        feed.take(loader, 1)
        ends = []

        def work():
            try:
                while True:
                    feed.take(loader, 1)
            except headrace.Error as e:
                ends.append(str(e))

        with Stopped(sidecar.engine):
            thread = threading.Thread(target=work)
            thread.start()
            time.sleep(0.2)  # what was ready is taken
            begin = time.monotonic()
            assert loader.state_dict()["samples"] and len(loader) == 8 and loader.wait_seconds >= 0
            pid = os.fork()
            if pid == 0:
                signal.alarm(10)
                try:
                    next(iter(loader))
                except headrace.ForkedError:
                    loader.close()
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(pid, 0)[1] == 0
            threading.Timer(1, loader.close).start()
            thread.join(10)
            assert time.monotonic() - begin < 9 and ends == ["the loader is closed"]


def test_a_signal_handler_may_ask_for_the_state():
    """At any moment: in a wait, in a reconnect, in a seek."""
    keys = feed.small()
    want = reference(keys, 80)
    with headrace.Loader(keys, timeout=20) as loader:
        seen = []
        before = signal.signal(signal.SIGALRM, lambda *_: seen.append(loader.state_dict()["samples"]))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            rows = []
            for i in range(4):
                rows += feed.take(loader, 20)
                supervisor = feed.children()[0]
                os.kill((feed.children(supervisor) or [supervisor])[0] if i % 2 else supervisor, signal.SIGKILL)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert rows == want and seen == sorted(seen) and set(seen) <= set(range(0, 648, 8))


def test_children_that_are_forked_while_a_sidecar_starts_do_not_hide_its_death():
    """They live on, as the workers of other loaders do."""
    keys = feed.small()
    stop, pids = threading.Event(), []

    def fork():
        while not stop.is_set():
            pid = os.fork()
            if pid == 0:
                time.sleep(30)
                os._exit(0)
            pids.append(pid)
            time.sleep(0.002)
            if len(pids) > 60:
                pid = pids.pop(0)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def sidecars():
        return [p for p in feed.children() if b"serve" in Path(f"/proc/{p}/cmdline").read_bytes()]

    with headrace.Loader(keys, timeout=20) as loader:
        feed.take(loader, 1)
        thread = threading.Thread(target=fork)
        thread.start()
        try:
            longest = 0.0
            for _ in range(40):
                for pid in sidecars():
                    os.kill(pid, signal.SIGKILL)
                begin = time.monotonic()
                feed.take(loader, 6)
                longest = max(longest, time.monotonic() - begin)
        finally:
            stop.set()
            thread.join()
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    assert longest < 10


# ---- where a trainer is, and what it has ----


@pytest.mark.parametrize("what", ["file", "dict", "socket"])
def test_a_trainer_that_changes_its_folder_finds_its_sidecar_again(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(feed.synth("images", 64, "--width", 96, "--height", 80), "d.hrd")
    (tmp_path / "elsewhere").mkdir()
    keys = {**feed.small(), "dataset": "d.hrd"}
    want = reference(keys, 12)
    config = {"dict": keys, "file": feed.write_conf("c.yaml", keys), "socket": "unix:s"}[what]
    sidecar = feed.Sidecar(feed.small(), path="s", start=what == "socket")
    with headrace.Loader(config, timeout=10) as loader:
        rows = feed.take(loader, 2)
        os.kill(feed.children()[0], signal.SIGKILL)
        if what == "socket":
            sidecar.kill()
            sidecar.process.stdout.close()
            sidecar.start()
        os.chdir("elsewhere")
        assert rows + feed.take(loader, 10) == want
    if what == "socket":
        sidecar.__exit__()


def test_force_is_for_the_state_that_was_given_and_no_other():
    (state,) = states_of(feed.small(seed=9), 3)
    with feed.Sidecar(feed.small()) as sidecar:
        with headrace.Loader(sidecar.address, state=state, force_state=True, timeout=10) as loader:
            assert feed.take(loader, 3) == reference(feed.small(), 6)[3:]
            sidecar.kill()
            sidecar.start()
            assert feed.take(loader, 9) == reference(feed.small(), 15)[6:]
            sidecar.kill()
            feed.write_conf(sidecar.conf, feed.small(seed=77))
            sidecar.start()
            with pytest.raises(headrace.StateError, match="seed"):
                feed.take(loader, 9)


def test_a_trainer_without_descriptors_is_told_so():
    """For each number of them that is left, down to none."""
    with feed.Sidecar(feed.small()) as sidecar:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                headrace.Loader(sidecar.address, timeout=2).close()  # all modules are loaded
                resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
                held = []
                while True:
                    try:
                        held.append(os.open("/dev/null", os.O_RDONLY))
                    except OSError:
                        break
                errors = []
                for left in range(5):
                    try:
                        headrace.Loader(sidecar.address, timeout=2).close()
                    except headrace.Error as e:
                        errors.append(str(e))
                    os.close(held.pop())
                good = len(errors) == 4 and all("ulimit" in e for e in errors)
                print(errors)
                code = 0 if good else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0


def test_numbers_that_do_not_fit_are_refused_and_not_cut():
    keys = feed.small()
    for rank in (2**32, -2):
        with pytest.raises(headrace.UsageError, match="rank"):
            headrace.Loader(keys, rank=rank, world=1)
    with headrace.Loader(keys, rank=np.int64(0), world=np.int64(1)) as loader:
        for epoch in (2**64, 2**64 + 3, -1):
            with pytest.raises(headrace.UsageError, match="epoch"):
                loader.set_epoch(epoch)
        loader.set_epoch(np.int64(3))
        assert next(iter(loader)).epoch == 3


# ---- the sidecar's side ----


def test_two_sidecars_that_start_at_once_do_not_remove_each_other_s_socket(tmp_path):
    """Looking for a stale socket and binding one's own is one step: it is done under a lock of the folder."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stale:
        stale.bind(str(path))
    node = path.stat().st_ino
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with feed.Sidecar(feed.small(), path=path, start=False) as sidecar:
        sidecar.start(ready=False)
        time.sleep(0.3)
        assert path.stat().st_ino == node and sidecar.alive()
        os.close(folder)
        assert sidecar.process.stdout.readline().startswith("ready unix:")
        with headrace.Loader(sidecar.address) as loader:
            assert feed.take(loader, 1)
