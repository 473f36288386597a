"""Order, ends and checkpoints as a trainer sees them: the real sidecar through the Python client."""
import json
import sys
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

AUGMENTED = {"image": {"ops": [{"random_resized_crop": 64}, "hflip"]}, "label": None}


def delivered(keys, epochs=1, **options):
    """[[record ids of each batch] of each epoch]"""
    with headrace.Loader(keys, **options) as loader:
        return [[[int(r) for r, v in zip(b.records, b.valid) if v] for b in loader] for _ in range(epochs)]


def flat(batches):
    return [r for batch in batches for r in batch]


# ---- order ----


@pytest.mark.parametrize("order", ["full", {"window": {"block": 8, "open": 2}}, "none"])
def test_each_epoch_is_a_permutation(order):
    epochs = delivered(feed.small(order=order), 3)
    assert all(sorted(flat(e)) == list(range(64)) for e in epochs)
    if order == "none":
        assert flat(epochs[2]) == list(range(64))
    else:
        assert len({tuple(flat(e)) for e in epochs}) == 3
        assert delivered(feed.small(order=order, seed=2), 3) != epochs
    assert delivered(feed.small(order=order), 3) == epochs


def test_threads_and_readers_change_nothing():
    keys = feed.small(fields=AUGMENTED)
    want = None
    for more in ({"workers": 1}, {"workers": 4}, {"reader": "preadv"}, {"reader": "uring"}, {"slots": 2},
                 {"read_ahead_bytes": "1MiB"}, {"io": "direct"}):
        try:
            with headrace.Loader({**keys, **more}) as loader:
                rows = feed.take(loader, 20)
        except headrace.UnsupportedError as e:
            print(f"left out: {more}: {e}")
            continue
        want = want or rows
        assert rows == want, more


def rank_parts(address, world, steps):
    """Per step the parts of all ranks, in rank order: (ids, pixels) of each."""
    loaders = [headrace.Loader(address, rank=r, world=world) for r in range(world)]
    parts = [[] for _ in range(steps)]
    try:
        for loader in loaders:
            step = 0
            while step < steps:
                for batch in loader:
                    assert (batch.first, batch.count) == (loader.rank * 8 // world, 8 // world)
                    parts[step].append((batch.records.tobytes(), batch["image"].tobytes()))
                    step += 1
                    if step == steps:
                        break
        states = [loader.state_dict() for loader in loaders]
        assert all(s == states[0] for s in states)
    finally:
        for loader in loaders:
            loader.close()
    return [tuple(b"".join(p[i] for p in step) for i in (0, 1)) for step in parts], states[0]


def test_ranks_together_are_the_global_batches_at_any_world():
    with feed.Sidecar(feed.small(fields=AUGMENTED)) as sidecar:
        want, state = rank_parts(sidecar.address, 1, 12)
        for world in (2, 4, 8):
            assert rank_parts(sidecar.address, world, 12) == (want, state)


def test_a_job_that_is_resized_goes_on_where_it_stopped():
    keys = feed.small(fields=AUGMENTED)
    with headrace.Loader(keys) as loader:
        ids = [b.records.tolist() for b in loader]
    with feed.Sidecar(keys) as sidecar:
        got, state = [], {}
        for world, steps in ((2, 3), (8, 1), (1, 2), (4, 2)):
            loaders = [headrace.Loader(sidecar.address, rank=r, world=world, state=state) for r in range(world)]
            parts = [[b.records.tolist() for _, b in zip(range(steps), loader)] for loader in loaders]
            state = loaders[-1].state_dict()
            assert all(loader.state_dict() == state for loader in loaders)
            for loader in loaders:
                loader.close()
            got += [sum((p[s] for p in parts), []) for s in range(steps)]
    assert got == ids


@pytest.mark.parametrize("last", ["drop", "pad", "wrap", "keep"])
def test_order_command_says_what_is_delivered(last, tmp_path):
    keys = feed.small(records=61, last=last, batch=6)
    path = feed.write_conf(tmp_path / "c.json", keys)
    said = [json.loads(line) for line in feed.run("order", path, "--count", "32").stdout.splitlines()]
    got = []
    with headrace.Loader(keys) as loader:
        while len(got) < 32:
            for b in loader:
                records = [f"0:{r}" if v else None for r, v in zip(b.records, b.valid)]
                got.append({"epoch": b.epoch, "step": b.step, "rank": 0, "records": records})
    assert got[:32] == said


# ---- ends ----


def test_what_becomes_of_the_last_records():
    def sizes(last, epochs=2):
        with headrace.Loader(feed.small(records=61, last=last, batch=8)) as loader:
            return [[(b.count, int(b.valid.sum())) for b in loader] for _ in range(epochs)]

    whole = (8, 8)
    assert sizes("drop") == [[whole] * 7] * 2
    assert sizes("keep") == [[whole] * 7 + [(5, 5)]] * 2
    assert sizes("pad") == [[whole] * 7 + [(8, 5)]] * 2
    assert sizes("wrap") == [[whole] * 8, [whole] * 8]
    wrapped = flat(sum(delivered(feed.small(records=61, last="wrap"), 8), []))
    assert all(sorted(wrapped[e * 61:(e + 1) * 61]) == list(range(61)) for e in range(8))


def last_batch(loader):
    for batch in loader:
        pass
    return batch


def test_padding_is_zeros():
    with headrace.Loader(feed.small(records=61, last="pad", batch=8, fields={**feed.IMAGE})) as loader:
        last = last_batch(loader)
        assert last.last_of_epoch
        assert not last["image"][5:].any() and not last["label"][5:].any() and not last.records[5:].any()
        assert last["image"][:5].any()


def test_a_short_last_batch_is_dealt_out_among_ranks():
    with feed.Sidecar(feed.small(records=61, last="keep")) as sidecar:
        counts = []
        for rank in range(4):
            with headrace.Loader(sidecar.address, rank=rank, world=4) as loader:
                last = last_batch(loader)
                counts.append(last.count)
                assert last["image"].shape[0] == last.count
                del last
    assert counts == [2, 1, 1, 1]


def test_the_run_ends_and_stays_ended():
    with headrace.Loader(feed.small(epochs=1)) as loader:
        assert len(loader) == 8
        batches = iter(loader)
        got = [b.end_of_run for b in batches]
        assert got == [False] * 7 + [True]
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(batches)
            assert list(loader) == []
        end = loader.state_dict()
        assert (end["epoch"], end["step"], end["samples"]) == (1, 0, 64)
    with headrace.Loader(feed.small(epochs=1), state=end) as loader:
        assert list(loader) == []
        loader.load_state_dict({})
        assert len(list(b.step for b in loader)) == 8


def test_an_epoch_that_drops_everything_is_refused():
    with pytest.raises(headrace.ConfigError, match="batch"):
        headrace.Loader(feed.small(batch=65))


@pytest.mark.parametrize("last, batches", [("pad", 1), ("keep", 1), ("wrap", 1)])
def test_a_batch_larger_than_the_dataset(last, batches):
    with headrace.Loader(feed.small(records=5, batch=16, last=last)) as loader:
        assert len(loader) == batches
        batch = next(iter(loader))
        valid = batch.records[batch.valid].tolist()
        assert sorted(valid[:5]) == list(range(5)) and len(valid) == (16 if last == "wrap" else 5)


def test_one_record():
    with headrace.Loader(feed.small(records=1, batch=1)) as loader:
        assert [row[:2] for row in feed.take(loader, 3)] == [(0, 0), (1, 0), (2, 0)]


# ---- state ----


@pytest.fixture(scope="module")
def run():
    """The pipeline, 40 of its batches, and the state before each (and after the last)."""
    keys = feed.small(fields=AUGMENTED)
    with headrace.Loader(keys) as loader:
        rows, states = [], [loader.state_dict()]
        for _ in range(5):
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                assert batch.state == loader.state_dict()
                states.append(batch.state)
    return keys, rows, states


def test_a_run_goes_on_from_any_state(run):
    keys, rows, states = run
    for at in (0, 1, 5, 7, 8, 9, 31):  # 8 is an epoch's end
        with headrace.Loader(keys, state=states[at]) as loader:
            assert loader.state_dict() == states[at]
            assert feed.take(loader, 8) == rows[at:at + 8]
            assert loader.state_dict() == states[at + 8]


def test_states_are_small_plain_maps(run):
    for state in run[2]:
        text = json.dumps(state)
        assert len(text) < 512 and json.loads(text) == state
        assert all(isinstance(v, (int, str)) for v in state.values())
    assert (run[2][13]["epoch"], run[2][13]["step"], run[2][13]["samples"]) == (1, 5, 13 * 8)


def test_the_rolling_digest_is_that_of_the_ids(run):
    xxhash = pytest.importorskip("xxhash")
    keys, _, states = run
    with headrace.Loader(keys) as loader:
        rolling = 0
        for _, (batch, after) in zip(range(8), zip(loader, states[1:])):
            rolling = xxhash.xxh3_64_intdigest(batch.records.astype("<u8").tobytes(), seed=rolling)
            assert after["order_digest"] == f"{rolling:016x}"


def test_a_live_loader_moves_to_any_state(run):
    keys, rows, states = run
    with headrace.Loader(keys) as loader:
        for at in (20, 3, 3, 8, 0, 16):
            loader.load_state_dict(states[at])
            assert feed.take(loader, 5) == rows[at:at + 5]
        held = next(iter(loader))
        before = feed.digest(held)
        loader.load_state_dict(states[2])
        assert feed.take(loader, 20) == rows[2:22]
        assert feed.digest(held) == before
        loader.load_state_dict({})
        assert feed.take(loader, 3) == rows[:3]


def test_a_state_before_the_first_batch_and_saved_right_after_a_load(run):
    keys, rows, states = run
    with headrace.Loader(keys) as loader:
        first = loader.state_dict()
    with headrace.Loader(keys, state=first) as loader:
        assert loader.state_dict() == first
        loader.load_state_dict(states[11])
        again = loader.state_dict()
    with headrace.Loader(keys, state=again) as loader:
        assert feed.take(loader, 2) == rows[11:13]
    with headrace.Loader(keys, state={}) as loader:
        assert feed.take(loader, 2) == rows[:2]


def test_set_epoch(run):
    keys, rows, _ = run
    with headrace.Loader(keys) as loader:
        for epoch in (3, 1, 1, 4, 0):
            loader.set_epoch(epoch)
            assert [(b.epoch, b.step, feed.digest(b)) for b in loader] == rows[epoch * 8:epoch * 8 + 8]
        loader.set_epoch(1)
        loader.set_epoch(2)
        assert next(iter(loader)).epoch == 2
        loader.set_epoch(2)  # begun: from its start again
        assert next(iter(loader)).step == 0


@pytest.mark.parametrize("change, word", [
    ({"seed": 2}, "seed"),
    ({"batch": 16}, "plan"),
    ({"order": "none"}, "plan"),
    ({"fields": {"image": {"ops": [{"random_resized_crop": 65}, "hflip"]}, "label": None}}, "plan"),
    ({"dataset": None}, "dataset"),
])
def test_the_state_of_another_run_is_refused_by_what_changed(run, change, word):
    keys, _, states = run
    if change.get("dataset", "") is None:
        change = {"dataset": str(feed.synth("images", 72, "--width", 96, "--height", 80))}
    other = {**keys, **change}
    with pytest.raises(headrace.StateError, match=word) as e:
        headrace.Loader(other, state=states[3])
    assert e.value.code == -21
    with headrace.Loader(other) as loader:
        want = feed.take(loader, 5)
        loader.load_state_dict({})
        with pytest.raises(headrace.StateError, match=word):
            loader.load_state_dict(states[3])
        loader.load_state_dict({})
        assert feed.take(loader, 5) == want
        loader.load_state_dict(states[3], force=True)
        assert feed.take(loader, 2) == want[3:]
    with headrace.Loader(other, state=states[3], force_state=True) as loader:
        assert feed.take(loader, 2) == want[3:]


@pytest.mark.parametrize("change", [
    {"step": 8}, {"step": -1}, {"epoch": 2**63}, {"headrace_state": 99}, {"seed": "1"}, {"dataset": "zz"},
    {"more": 1}, {"order_digest": ""}, {"step": 1.5}, {"epoch": None}, {"x" * 300: 1},
])
def test_a_damaged_state_is_refused(run, change):
    keys, rows, states = run
    with pytest.raises(headrace.StateError):
        headrace.Loader(keys, state={**states[3], **change})
    with headrace.Loader(keys) as loader:
        with pytest.raises(headrace.StateError):
            loader.load_state_dict({**states[3], **change})
        loader.load_state_dict(states[3])
        assert feed.take(loader, 1) == rows[3:4]


def test_what_does_not_change_the_values_does_not_change_the_plan(run):
    keys, rows, states = run
    for more in ({"slots": 2}, {"workers": 1}, {"reader": "preadv"}):
        with headrace.Loader({**keys, **more}, state=states[6]) as loader:
            assert feed.take(loader, 3) == rows[6:9]


@pytest.mark.parametrize("kind", ["repeats", "weights"])
def test_a_state_far_out_loads_at_once(kind):
    """Step 10^6 of an epoch of 10^9 samples: nothing is walked or counted on the way there."""
    big, small = str(feed.synth("text", 1000)), str(feed.synth("text", 10))
    dataset = ([{"path": big, "repeats": 10**6}] if kind == "repeats" else
               [{"path": small, "weight": 0.1}, {"path": big, "weight": 3.14}])
    keys = {"dataset": dataset, "batch": 100, "fields": {"text": None}}
    if kind == "weights":
        keys["stop"] = {"steps": 10**7}
    with headrace.Loader(keys) as loader:
        assert len(loader) == 10**7
        state = {**next(iter(loader)).state, "step": 10**6, "samples": 10**8}
        times, first = [], []
        for i in range(9):
            loader.load_state_dict({**state, "step": 17 * i})
            next(iter(loader))
            begin = time.monotonic()
            loader.load_state_dict({**state, "step": 10**6 + i})
            times.append(time.monotonic() - begin)
            batch = next(iter(loader))
            first.append(time.monotonic() - begin)
            assert batch.step == 10**6 + i and loader.state_dict()["samples"] == 10**8 + 100
    print(f"{kind}: a state at step 10^6 loads in {sorted(times)[4] * 1e3:.2f} ms, its first batch is there after "
          f"{sorted(first)[4] * 1e3:.2f} ms")
    assert min(times) < 0.01  # by far, on a quiet machine
