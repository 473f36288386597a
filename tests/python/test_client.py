"""The Python package over a sidecar that feeds numbered batches (tests/ipc/fake_sidecar.c)."""

import copy
import gc
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

np = pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEADRACE_BUILD", ROOT / "build"))
FAKE = BUILD / "tests" / "ipc" / "fake_sidecar"
if not FAKE.exists():
    pytest.skip(f"no {FAKE}: build first", allow_module_level=True)
os.environ.setdefault("HEADRACE_LIB", str(BUILD / "src" / "client" / "libheadrace.so"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "lib")]

import headrace  # noqa: E402
from feed import children  # noqa: E402
from headrace import _lib, errors  # noqa: E402

RANK_NAMES = ["RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setattr(_lib, "find_binary", lambda: str(FAKE))
    for name in RANK_NAMES:
        monkeypatch.delenv(name, raising=False)


def private(**options):
    return headrace.Loader({"slots": 4, **options}, timeout=20)


class Sidecar:
    """A sidecar on a socket, in a process of its own."""

    def __init__(self, path, options="slots=4"):
        self.path, self.options = path, options
        self.start()

    def start(self):
        self.process = subprocess.Popen([FAKE, "--socket", self.path, self.options])

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def sidecar(tmp_path):
    running = []

    def start(options="slots=4"):
        running.append(Sidecar(str(tmp_path / "s"), options))
        return running[-1]

    yield start
    for one in running:
        one.kill()


# ---- iteration ----


def test_a_for_loop_is_one_epoch_and_the_next_goes_on():
    with private() as loader:
        assert len(loader) == 5
        for epoch in range(3):
            seen = [(b.epoch, b.step, int(b["label"][0]) // 4) for b in loader]
            assert seen == [(epoch, s, epoch * 5 + s) for s in range(5)]


def test_break_goes_on_with_the_rest_of_the_epoch():
    with private() as loader:
        for batch in loader:
            if batch.step == 1:
                break
        del batch
        assert [b.step for b in loader] == [2, 3, 4]


def test_the_run_ends():
    with private(epochs=2) as loader:
        assert sum(1 for _ in loader) == 5
        assert sum(1 for _ in loader) == 5
        assert sum(1 for _ in loader) == 0


# ---- fields ----


def test_fields_are_views_of_the_slot():
    with private() as loader:
        batches = iter(loader)
        next(batches)
        batch = next(batches)
        assert list(batch) == ["label", "x", "image", "half", "caption", "crop"]
        assert len(batch) == 6 and "x" in batch and "nothing" not in batch
        x = batch["x"]
        assert x.dtype == np.float32 and x.shape == (4, 3) and x.flags.writeable
        want = 1 + np.arange(4)[:, None] + 0.25 * np.arange(3)
        np.testing.assert_array_equal(x, want)
        image = batch["image"]
        np.testing.assert_array_equal(image.ravel(), (1 + np.arange(48)) % 256)
        assert batch.layout("image") == "nhwc" and image.ctypes.data % 64 == 0
        image[0] = 0  # in place
        assert batch["image"] is image
        with pytest.raises(KeyError, match="fields: label, x"):
            batch["nothing"]
        np.testing.assert_array_equal(batch.records, 4 + np.arange(4))
        np.testing.assert_array_equal(batch.valid, True)
        np.testing.assert_array_equal(batch.sources, 0)
        assert (batch.count, batch.global_count, batch.first) == (4, 4, 0)


def test_ragged_fields():
    with private() as loader:
        batch = next(iter(loader))
        caption = batch["caption"]
        assert caption.strings() == ["0-0", "0-1", "0-2", "0-3"]
        assert len(caption) == 4 and caption.shapes is None
        assert caption[-1].tobytes() == b"0-3"
        assert [c.tobytes() for c in caption[1:3]] == [b"0-1", b"0-2"]
        with pytest.raises(IndexError):
            caption[4]
        np.testing.assert_array_equal(caption.offsets, [0, 3, 6, 9, 12])
        crop = batch["crop"]
        assert [c.shape for c in crop] == [(1, 2, 3), (2, 2, 3), (1, 2, 3), (2, 2, 3)]
        assert all(np.all(c == 0) for c in crop)


def test_bfloat16_is_named_and_given_as_bits_or_as_ml_dtypes():
    with private() as loader:
        for batch in loader:
            pass
        assert batch.dtype("half") == "bf16"
        bits = batch["half"].view(np.uint16).astype(np.uint32) << 16
        np.testing.assert_array_equal(bits.view(np.float32), 4.0)


# ---- leases ----


def test_the_slot_is_held_until_the_last_array_is_gone():
    with private(slots=2) as loader:
        batches = iter(loader)
        x = next(batches)["x"][1:]  # a view of a view, and nothing else
        y = next(batches)["x"]
        with pytest.raises(headrace.AllLeasedError, match="all 2 slots"):
            next(batches)
        assert x[0, 0] == 1 and y[0, 0] == 1
        del y
        gc.collect()
        z = next(batches)["x"]
        assert x[0, 0] == 1 and z[0, 0] == 2


def test_release_gives_the_slot_back_and_access_raises():
    with private(slots=1) as loader:
        batches = iter(loader)
        batch = next(batches)
        x = batch["x"]
        batch.release()
        batch.release()
        assert batch.released
        with pytest.raises(headrace.ReleasedError):
            batch["x"]
        with pytest.raises(headrace.ReleasedError):
            batch.records
        assert next(batches).step == 1
    del batch, batches
    x.sum()  # mapped still, whatever it shows


def test_arrays_outlive_the_loader(sidecar):
    running = sidecar("slots=2")
    loader = headrace.Loader("unix:" + running.path)
    x = next(iter(loader))["x"]
    loader.close()
    with headrace.Loader("unix:" + running.path) as other:  # fills the same slots again
        assert [b.step for b in other] == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(x[:, 0], [0, 1, 2, 3])
    running.kill()
    np.testing.assert_array_equal(x[:, 0], [0, 1, 2, 3])


def test_batches_are_dropped_in_other_threads():
    with private(slots=4, steps=200) as loader:
        threads = []
        for batch in loader:
            holder = [batch]
            threads.append(threading.Thread(target=holder.clear))
            del batch, holder
            threads[-1].start()
            threads[-1].join()
        assert len(threads) == 200


# ---- state ----


def test_state_goes_around():
    with private() as loader:
        assert loader.state_dict()["step"] == 0
        batches = iter(loader)
        next(batches)
        batch = next(batches)
        state = loader.state_dict()
        assert state == batch.state and state["step"] == 2
        assert all(isinstance(v, (int, str)) for v in state.values())
        del batch
        assert [b.step for b in batches] == [2, 3, 4]
        loader.load_state_dict(state)
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        assert [b.step for b in loader] == [2, 3, 4]
        loader.load_state_dict({})
        assert next(iter(loader)).step == 0
    with headrace.Loader({"slots": 4}, state=state) as again:
        assert again.state_dict() == state
        assert [b.step for b in again] == [2, 3, 4]


def test_a_state_of_another_dataset_is_refused():
    with pytest.raises(headrace.StateError, match="another dataset"):
        headrace.Loader({"slots": 4}, state={"dataset": "other"})
    with private() as loader:
        with pytest.raises(headrace.StateError):
            loader.load_state_dict({"dataset": "other"})
        loader.load_state_dict({})
        assert next(iter(loader)).step == 0


def test_set_epoch():
    with private() as loader:
        before = loader.stats()["published"]
        loader.set_epoch(0)
        for batch in loader:
            pass
        loader.set_epoch(1)  # the one that comes next: nothing is thrown away
        assert loader.stats()["published"] <= before + 10
        loader.set_epoch(7)
        assert [b.epoch for b in loader] == [7] * 5
        with pytest.raises(headrace.UsageError):
            loader.set_epoch(-1)


def test_state_dict_is_quick():
    with private() as loader:
        loader.state_dict()
        best = min(timed(loader.state_dict) for _ in range(200))
    assert best < 200e-6  # 20 us on a quiet machine


def timed(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


# ---- life and death ----


def test_a_dead_sidecar_is_a_pause(sidecar):
    running = sidecar("slots=3")
    with headrace.Loader("unix:" + running.path, timeout=20) as loader:
        batches, seen = iter(loader), []
        for _ in range(3):
            seen.append(next(batches).step)
        running.kill()
        threading.Timer(0.3, running.start).start()
        seen += [b.step for b in batches]
        assert seen == [0, 1, 2, 3, 4]
        assert [b.epoch for b in loader] == [1] * 5


def test_a_killed_private_sidecar_is_started_again():
    with private() as loader:
        batches = iter(loader)
        assert next(batches).step == 0
        (first,) = children()
        os.kill(first, signal.SIGKILL)
        assert [b.step for b in batches] == [1, 2, 3, 4]
        assert [b.step for b in loader] == [0, 1, 2, 3, 4]
        assert children() != [first]
    assert children() == []


def test_nothing_is_left_behind():
    loader = private()
    assert len(children()) == 1
    loader.close()
    loader.close()
    assert children() == []
    with pytest.raises(headrace.UsageError, match="closed"):
        iter(loader)
    loader = private()
    del loader
    gc.collect()
    assert children() == []


SCRIPT = """
import os, signal, sys, time
import headrace
from headrace import _lib
_lib.find_binary = lambda: {fake!r}
loader = headrace.Loader({{"slots": 4}})
batch = next(iter(loader))
print(open(f"/proc/self/task/{{os.getpid()}}/children").read().split()[0], flush=True)
{end}
"""


# A forked worker lives on.
FORKS = """
if os.fork() == 0:
    os.closerange(0, 3)
    time.sleep(8)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_script(end):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(fake=str(FAKE), end=end)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def gone(pid, seconds=5):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0]
        except OSError:
            return True
        if state == "Z":  # its new parent has not reaped it yet
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    "end",
    ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "os.abort()", "pass", "1 / 0", FORKS],
)
def test_a_private_sidecar_ends_with_its_trainer(end):
    process = run_script(end)
    pid = int(process.stdout.readline())
    process.communicate(timeout=30)
    assert gone(pid)


def test_ctrl_c_interrupts_a_wait_and_spares_the_sidecar():
    end = (
        "batch.release()\n"
        "loader.load_state_dict({'epoch': 50, 'step': 0})\n"
        "[0 for b in loader]\n"
        "try:\n"
        "    os.killpg(os.getpgid(0), signal.SIGINT)\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', loader.state_dict()['epoch'], next(iter(loader)).epoch)\n"
    )
    process = run_script(end)
    pid = int(process.stdout.readline())
    out = process.stdout.read()  # not communicate(), which loses what readline() read ahead
    process.communicate(timeout=30)
    assert out.split() == ["stopped", "51", "51"]
    assert gone(pid)


def test_ctrl_c_while_waiting_for_a_batch():
    with private(delay_ms=1500) as loader:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
        assert time.monotonic() - begin < 2


def test_ctrl_c_while_attaching(tmp_path):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        headrace.Loader(f"unix:{tmp_path}/nobody")
    assert time.monotonic() - begin < 2


def test_other_threads_run_while_one_waits():
    with private(delay_ms=300) as loader:
        turns = []
        stop = threading.Event()

        def count():
            while not stop.is_set():
                turns.append(1)
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        next(iter(loader))
        stop.set()
        thread.join()
        assert len(turns) > 20


def test_a_forked_child_is_refused():
    with private() as loader:
        batch = next(iter(loader))
        batch["x"]
        pid = os.fork()
        if pid == 0:
            code = 0
            for use in (
                lambda: next(iter(loader)),
                lambda: batch["image"],
                lambda: loader.load_state_dict({}),
                loader.stats,
            ):
                try:
                    use()
                    code |= 1
                except headrace.ForkedError as e:
                    code |= 0 if "fork" in str(e) else 2
                except BaseException:
                    code |= 4
            os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert batch["image"][0, 0, 0, 0] == 0
        assert next(iter(loader)).step == 1


# ---- errors ----


def test_what_cannot_be_pickled_or_copied_says_so():
    with private() as loader:
        batch = next(iter(loader))
        for thing, hint in (loader, "open one in each process"), (batch, "copy its arrays"):
            for way in pickle.dumps, copy.copy, copy.deepcopy:
                with pytest.raises(TypeError, match=hint):
                    way(thing)
        assert next(iter(loader)).step == 1


def test_a_timeout_can_be_for_ever_but_not_nonsense():
    config = {"slots": 4}
    with headrace.Loader(config, timeout=float("inf")) as loader:
        assert next(iter(loader)).step == 0
    for wrong in (float("nan"), -1):
        with pytest.raises(headrace.UsageError, match="timeout must be seconds"):
            headrace.Loader(config, timeout=wrong)


def test_a_state_that_is_no_dict_is_refused():
    with pytest.raises(TypeError, match="state_dict"):
        headrace.Loader({"slots": 4}, state="x")


def test_the_sidecar_s_error_has_its_place():
    with private(error_at=3) as loader:
        seen = []
        with pytest.raises(headrace.CorruptError) as e:
            for batch in loader:
                seen.append(batch.step)
                batch.release()
        assert seen == [0, 1, 2]
        assert (e.value.shard, e.value.record, e.value.field) == ("a-0000.hrs", 12, "image")
        assert e.value.code == -11 and "record 12" in str(e.value)


def test_openings_that_fail(tmp_path):
    with pytest.raises(headrace.ConfigError, match="no pipeline file"):
        headrace.Loader(str(tmp_path / "none.yaml"))
    with pytest.raises(headrace.ConfigError, match="exit code 2"):
        private(bad_config=1)
    with pytest.raises(headrace.DisconnectedError, match="headrace serve"):
        headrace.Loader(f"unix:{tmp_path}/s", timeout=0.2)
    with pytest.raises(headrace.UsageError, match="rank 3"):
        headrace.Loader({"slots": 4}, rank=3, world=2)
    assert children() == []


def test_a_stream_that_feeds_another_trainer_is_busy(sidecar):
    running = sidecar("slots=4")
    with headrace.Loader("unix:" + running.path):
        with pytest.raises(headrace.BusyError, match="already feeds a trainer"):
            headrace.Loader("unix:" + running.path, timeout=0.6)
    with headrace.Loader("unix:" + running.path) as loader:
        assert next(iter(loader)).step == 0


def test_rank_from_the_environment(monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with private() as loader:
        assert (loader.rank, loader.world) == (2, 4)
    with headrace.Loader({"slots": 4}, rank=1, world=2) as loader:
        assert (loader.rank, loader.world) == (1, 2)


def test_errors_match_the_table():
    text = (ROOT / "include" / "headrace" / "errors.h").read_text()
    rows = re.findall(r"X\((\w+), (-\d+),", text)
    assert len(rows) == len(errors.BY_CODE)
    for name, code in rows:
        kind = errors.BY_CODE[int(code)]
        assert issubclass(kind, headrace.Error)
        assert f"HR_E_{name}:" in kind.__doc__
        assert getattr(headrace, kind.__name__) is kind


def test_structs_match_the_header():
    """The fields of each struct, in order, against the header's text."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "include/headrace/client.h").read_text(), flags=re.S)
    for name, kind in [
        ("hr_client_options", _lib.Options),
        ("hr_array", _lib.Array),
        ("hr_batch_info", _lib.BatchInfo),
        ("hr_client_info", _lib.ClientInfo),
    ]:
        body = re.search(r"struct %s \{(.*?)\};" % name, text, flags=re.S).group(1)
        names = []
        for line in body.split(";"):
            words = re.sub(r"\[.*?\]", "", line).replace("*", " ").split(",")
            names += [w.split()[-1] for w in words if w.strip()]
        assert names == [f for f, *_ in kind._fields_]


# ---- replicas ----


def test_replicas_read_only(sidecar):
    running = sidecar("slots=3 shared=1")
    with headrace.Loader("unix:" + running.path, shared=True) as a:
        with headrace.Loader("unix:" + running.path, shared=True) as b:
            assert next(iter(a)).step == 0  # makes room for one that both get
            x = next(iter(b))["x"]
            assert x[0, 0] >= 1
            assert not x.flags.writeable
            with pytest.raises(ValueError):
                x.flags.writeable = True
            with pytest.raises(ValueError):
                x[0] = 0
            assert next(iter(a))["x"].shape == (4, 3)


# ---- other frameworks ----


def test_dlpack():
    with private() as loader:
        batch = next(iter(loader))
        x = np.from_dlpack(batch.dlpack("x"))
        assert np.shares_memory(x, batch["x"])
        assert batch.dlpack("half").dtype == np.uint16


def test_torch_shares_the_memory():
    torch = pytest.importorskip("torch")
    with private(slots=2) as loader:
        batches = iter(loader)
        tensors = next(batches).torch()
        assert tensors["x"].data_ptr() % 64 == 0
        tensors["x"][0, 0] = 9
        assert tensors["half"].dtype == torch.bfloat16
        assert tensors["caption"].offsets.tolist() == [0, 3, 6, 9, 12]
        held = tensors["image"][1:]
        del tensors
        other = next(batches)
        with pytest.raises(headrace.AllLeasedError):
            next(batches)
        assert int(held[0, 0, 0, 0]) == 12
        del held
        gc.collect()
        assert next(batches).step == 2
        copied = other.to("cpu")
        assert copied["x"].data_ptr() != other["x"].ctypes.data
        assert float(copied["half"][0]) == 1.0


def test_torch_copies_what_must_not_be_written(sidecar):
    torch = pytest.importorskip("torch")
    assert torch
    running = sidecar("slots=3 shared=1")
    with headrace.Loader("unix:" + running.path, shared=True) as loader:
        batch = next(iter(loader))
        tensors = batch.torch()
        tensors["x"][:] = 0
        assert batch["x"][1, 0] == 1
        assert batch.torch(copy=False)["x"].data_ptr() == batch["x"].ctypes.data


def test_jax_shares_the_memory():
    jax = pytest.importorskip("jax")
    with private() as loader:
        batch = next(iter(loader))
        arrays = batch.jax()
        assert arrays["x"].unsafe_buffer_pointer() == batch["x"].ctypes.data
        assert arrays["half"].dtype == jax.numpy.bfloat16
