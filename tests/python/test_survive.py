"""Engines that a record brings down, and what else must not end a run: the supervisor, the quarantine, the
time limit, budgets, full disks and bad storage."""
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

TRAPS = {"HEADRACE_TEST_DECODER": "1"}
FIELDS = {"image": {"ops": [{"resize": 20}, {"center_crop": 16}]}}


def jpeg(color):
    out = io.BytesIO()
    Image.new("RGB", (24, 24), color).save(out, "JPEG")
    return out.getvalue()


def trap(picture, how):
    """The picture with a comment segment that springs one of the decoder's traps."""
    text = b"HEADRACE-TEST:" + how.encode()
    return picture[:2] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + picture[2:]


def make_dataset(name, records, traps):
    """records pictures of a few colours; traps: record number -> what it does."""
    pictures = [jpeg((i * 37 % 256, i * 91 % 256, i * 13 % 256)) for i in range(16)]
    path = feed.SCRATCH / f"{name}.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(records):
            data = pictures[i % 16]
            if i in traps:
                data = trap(data, traps[i])
            info = tarfile.TarInfo(f"{i:06}.jpg")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return feed.pack(name, "--jpeg", "keep", path)


def rows_of(loader):
    """(records, valid, digest) of every batch of the run."""
    rows = []
    while True:
        before = len(rows)
        for batch in loader:
            rows.append((batch.records.tolist(), batch.valid.tolist(), feed.digest(batch)))
        if len(rows) == before:
            return rows


def quarantined(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_records_that_crash_or_stall_a_decoder_cost_one_restart_each_and_nothing_else():
    traps = {77: "crash", 1234: "abort", 2500: "hang", 4999: "crash", 5000: "overflow", 7777: "crash",
             9000: "hang", 10003: "abort"}
    dataset = make_dataset("traps", 10008, traps)
    keys = feed.conf(dataset, fields=FIELDS, batch=72, epochs=1, last="keep", workers=2)
    with headrace.Loader(keys) as loader:  # to this one they are pictures like others
        want = rows_of(loader)
    assert sum(len(records) for records, _, _ in want) == 10008
    listed = feed.SCRATCH / "traps.jsonl"
    with feed.Sidecar(keys, "--quarantine", listed, "--decode-limit", 0.5, env=TRAPS) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            got = rows_of(loader)
            stats = loader.stats()
        log = sidecar.log.read_text()
    assert len(got) == len(want)
    compared = 0
    for (records, _, _), (told, valid, _) in zip(want, got):
        assert all(valid)
        for record, other in zip(records, told):
            if record in traps:
                assert other not in traps
            else:
                assert other == record
                compared += 1
    assert compared == 10000
    assert log.count("another engine goes on") == len(traps), log
    lines = quarantined(listed)
    assert sorted(line["record"] for line in lines) == sorted(traps)
    for line in lines:
        assert line["code"] == "HR_E_CRASHED" and line["field"] == "image" and line["shard"]
        assert line["key"] == f"{line['record']:06}"
        assert ("time" in line["reason"]) == (traps[line["record"]] == "hang")
    assert stats["bad_crashed"] >= 1 and stats["bad_records"] == len(traps)


def records_of_steps(keys, world, **options):
    """The records of each global batch of a run, put together from all ranks of a fresh sidecar."""
    with feed.Sidecar(keys, **options) as sidecar:
        loaders = [headrace.Loader(sidecar.address, rank=r, world=world) for r in range(world)]
        parts = [rows_of(loader) for loader in loaders]
        for loader in loaders:
            loader.close()
    return [[r for rows in step for r in rows[0]] for step in zip(*parts, strict=True)]


def test_a_substitute_is_the_same_after_a_restart_and_for_every_rank():
    traps = {5: "crash", 40: "crash"}
    dataset = make_dataset("few", 64, traps)
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=1, order="none", bad_budget=0.5)
    one = records_of_steps(keys, 1, env=TRAPS)
    assert len(one) == 4
    assert records_of_steps(keys, 1, env=TRAPS) == one and records_of_steps(keys, 2, env=TRAPS) == one
    assert [r for step in one for r in step if r not in traps] and one[0][5] != 5


def test_a_record_that_gets_the_engine_killed_is_found_by_suspicion():
    """As when decoding it takes more memory than there is: nobody says whose fault it was."""
    dataset = make_dataset("killer", 256, {100: "kill"})
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=1, order="none", workers=3)
    listed = feed.SCRATCH / "killer.jsonl"
    with feed.Sidecar(keys, "--quarantine", listed, env=TRAPS) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            rows = rows_of(loader)
        log = sidecar.log.read_text()
    records = [r for records, _, _ in rows for r in records]
    assert [r for i, r in enumerate(records) if i != 100] == [i for i in range(256) if i != 100]
    assert [line["record"] for line in quarantined(listed)] == [100]
    assert log.count("goes on") == 3, log


def test_masked_and_fatal_crashes():
    dataset = make_dataset("mask", 64, {9: "crash"})
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=1, order="none")
    with feed.Sidecar({**keys, "bad_records": "mask"}, env=TRAPS) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            rows = rows_of(loader)
    assert [i for i, ok in enumerate(rows[0][1]) if not ok] == [9]
    with feed.Sidecar({**keys, "bad_records": "fail"}, env=TRAPS) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            with pytest.raises(headrace.CrashedError, match="crashed a decoder") as caught:
                rows_of(loader)
    assert caught.value.record == 9


def test_crashes_count_against_the_budget():
    traps = {r: "crash" for r in range(20, 200, 8)}
    dataset = make_dataset("crashes", 256, traps)
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=1, order="none")  # at most 16 of these
    with feed.Sidecar(keys, env=TRAPS) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            with pytest.raises(headrace.BudgetError, match="17 records are bad, more than the budget of 16"):
                rows_of(loader)
        assert sidecar.log.read_text().count("goes on") == 17


# Kills every process that begins below the one that it is told, as soon as it is headrace.
KILLER = """
import os, signal, sys, time
from pathlib import Path
while True:
    for pid in Path(f"/proc/{sys.argv[1]}/task/{sys.argv[1]}/children").read_text().split():
        try:
            if Path(f"/proc/{pid}/comm").read_text() == "headrace\\n":
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    time.sleep(0.005)
"""


def test_a_private_sidecar_that_is_killed_again_and_again_is_an_error_in_time():
    with headrace.Loader(feed.small(), timeout=2) as loader:
        feed.take(loader, 3)
        killer = subprocess.Popen([sys.executable, "-c", KILLER, str(os.getpid())])
        try:
            begin = time.monotonic()
            with pytest.raises(headrace.DisconnectedError, match="private sidecar"):
                while True:
                    feed.take(loader, 1)
            assert time.monotonic() - begin < 10
        finally:
            killer.kill()
            killer.wait()
    assert feed.children() == []


def test_a_private_trainer_sees_a_pause(monkeypatch):
    monkeypatch.setenv("HEADRACE_TEST_DECODER", "1")
    dataset = make_dataset("private", 640, {333: "crash", 500: "abort"})
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=1, order="none", bad_budget=0.5)
    with headrace.Loader(keys, timeout=20) as loader:
        supervisor = feed.children()[0]
        held = None
        records = []
        for batch in loader:
            if held is None:
                held, before = batch, feed.digest(batch)
            records += batch.records.tolist()
        assert feed.digest(held) == before
        assert feed.children() == [supervisor]
        assert [r for i, r in enumerate(records) if i not in (333, 500)] == [
            i for i in range(640) if i not in (333, 500)]
        held = batch = None
    assert feed.children() == []


def test_an_engine_that_is_killed_again_and_again_is_a_pause_each_time():
    keys = feed.small(epochs=0)
    with headrace.Loader(keys) as loader:
        want = feed.take(loader, 120)
    gaps, rows = [], []
    with headrace.Loader(keys, timeout=20) as loader:
        (supervisor,) = feed.children()
        for kill in range(12):
            (engine,) = feed.children(supervisor)
            os.kill(engine, signal.SIGKILL)
            for _ in range(10):  # what was ready is delivered, then it pauses
                begin = time.monotonic()
                rows += feed.take(loader, 1)
                gaps.append(time.monotonic() - begin)
        assert feed.children() == [supervisor]
    assert rows == want
    longest = sorted(gaps)[-12:]
    print(f"pauses over a killed engine: median {longest[6]:.3f} s, longest {longest[-1]:.3f} s")
    assert longest[-1] < 3


def test_engines_that_do_nothing_but_die_end_the_run_with_a_clear_error():
    dataset = feed.synth("images", 64, "--width", 96, "--height", 80)
    with feed.Sidecar(feed.conf(dataset, fields=feed.IMAGE, batch=8)) as sidecar:
        for _ in range(5):
            engine = sidecar.engine
            os.kill(engine, signal.SIGSEGV)
            if not feed.eventually(lambda: feed.children(sidecar.pid) not in ([], [engine]), 6):
                break
        assert sidecar.process.wait(20) == 3
    log = sidecar.log.read_text()
    assert "died 5 times in a row" in log and "docs/recovery.md" in log, log
    assert not os.path.exists(sidecar.path)


def test_more_deaths_than_are_allowed_are_told_to_the_trainer():
    keys = feed.small()
    with feed.Sidecar(keys, "--max-restarts", 1) as sidecar:
        with headrace.Loader(sidecar.address, timeout=20) as loader:
            feed.take(loader, 2)
            engine = sidecar.engine
            os.kill(engine, signal.SIGKILL)
            assert feed.eventually(lambda: feed.children(sidecar.pid) not in ([], [engine]))
            feed.take(loader, 8)
            os.kill(sidecar.engine, signal.SIGKILL)
            with pytest.raises(headrace.CrashedError, match="died 2 times in ten minutes"):
                feed.take(loader, 50)
        assert sidecar.process.wait(10) == 3


def test_the_engine_ends_with_its_supervisor():
    with feed.Sidecar(feed.small()) as sidecar:
        engine = sidecar.engine
        sidecar.kill(signal.SIGKILL)
        assert feed.eventually(lambda: feed.gone(engine), 5)


def test_sigterm_to_the_whole_group_drains_once():
    """As a service manager does it: engine and supervisor both get the signal."""
    with feed.Sidecar(feed.small(), "--grace", 20) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            rows = feed.take(loader, 2)
            os.kill(sidecar.engine, signal.SIGTERM)
            os.kill(sidecar.pid, signal.SIGTERM)
            rows += feed.take(loader, 10)
        assert sidecar.process.wait(10) == 0
        assert len(rows) == 12


def test_what_is_held_or_ready_stays_as_it_is_when_the_sidecar_ends():
    keys = feed.small(slots=3)
    with headrace.Loader(keys) as loader:
        want = feed.take(loader, 5)
    for _ in range(8):
        with feed.Sidecar(keys) as sidecar, headrace.Loader(sidecar.address, timeout=0.2) as loader:
            batches = iter(loader)
            held = next(batches)
            assert feed.eventually(lambda: loader.stats()["ready"] == 2)
            sidecar.kill(signal.SIGINT)
            rest = feed.take(loader, 2)  # still there, and what they were
            assert [(held.epoch, held.step, feed.digest(held)), *rest] == want[:3]
            held = None


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_held_stays_as_it_is_after_a_refused_state(shared):
    """The trainer comes back with another one, and is fed from the same memory."""
    keys = feed.small(slots=3)
    with feed.Sidecar(keys) as sidecar, headrace.Loader(sidecar.address, shared=shared) as loader:
        held = next(iter(loader))
        before, state = feed.digest(held), loader.state_dict()
        with pytest.raises(headrace.StateError, match="no step 999"):
            loader.load_state_dict({**state, "step": 999})
        for _ in range(3):  # not what was ready before either
            with pytest.raises(headrace.StateError, match="no step 999"):
                feed.take(loader, 1)
        loader.load_state_dict(state)
        for _ in range(8):
            feed.take(loader, 1)
            assert feed.digest(held) == before


def test_replicas_keep_what_they_hold_when_the_sidecar_ends():
    """One after the other loses its slots; nobody is left to fill them again."""
    keys = feed.small(records=256, slots=5)
    for _ in range(6):
        with feed.Sidecar(keys) as sidecar:
            loaders = [headrace.Loader(sidecar.address, shared=True, timeout=0.5) for _ in range(4)]
            held = []
            for ahead, loader in enumerate(loaders):  # each a slot of its own
                feed.take(loader, ahead)
                held.append(next(iter(loader)))
            before = [feed.digest(batch) for batch in held]
            assert len(set(before)) == 4
            sidecar.kill(signal.SIGINT)
            assert [feed.digest(batch) for batch in held] == before
            held.clear()
            for loader in loaders:
                loader.close()


def test_no_supervise_is_one_process():
    with feed.Sidecar(feed.small(), "--no-supervise") as sidecar:
        assert feed.children(sidecar.pid) == []
        with headrace.Loader(sidecar.address) as loader:
            feed.take(loader, 3)
        assert sidecar.kill(signal.SIGTERM) == 0
        assert not os.path.exists(sidecar.path)


def test_the_supervisor_is_small():
    with feed.Sidecar(feed.small()) as sidecar:
        text = Path(f"/proc/{sidecar.pid}/smaps_rollup").read_text()
        private = sum(int(n) for n in re.findall(r"Private_Dirty: +(\d+) kB", text))
        print(f"supervisor: {private} kB of its own")
        if not os.environ.get("HEADRACE_BUILD", "").endswith("address"):
            assert private < 2048


def test_a_sidecar_leaves_the_socket_of_its_successor():
    """Somebody removed its path, and another one took it."""
    keys = feed.small()
    with feed.Sidecar(keys) as old:
        os.unlink(old.path)
        with feed.Sidecar(keys, path=old.path) as new:
            old.kill(signal.SIGTERM)
            with headrace.Loader(new.address, timeout=5) as loader:
                assert len(feed.take(loader, 3)) == 3
            new.kill(signal.SIGTERM)
            assert not os.path.exists(new.path)


# ---- budgets, disks, storage ----


def damaged(name, records, bad):
    """A dataset of which the payload of some records was overwritten."""
    dataset = make_dataset(name, records, {})
    shard = next(Path(dataset).glob("*.hrs"))
    data = bytearray(shard.read_bytes())
    at, places = 0, []
    while (at := data.find(b"\xff\xd8\xff", at)) >= 0:
        places.append(at)
        at += 3
    assert len(places) == records
    for record in bad:
        data[places[record] + 200] ^= 0xFF
    shard.write_bytes(data)
    return dataset


def test_a_budget_of_many_records_is_kept_too():
    lines = feed.SCRATCH / "many.jsonl"
    lines.write_text("".join(f'{{"text":"record {i:06}"}}\n' for i in range(70_000)))
    dataset = feed.pack("many", lines)
    for shard in Path(dataset).glob("*.hrs"):
        shard.write_bytes(shard.read_bytes().replace(b"record ", b"rECORD "))
    keys = feed.conf(dataset, fields={"text": None}, batch=1000, epochs=1, order="none", bad_records="mask",
                     bad_budget=0.6, bad_consecutive=10**9)
    with feed.Sidecar(keys) as sidecar, headrace.Loader(sidecar.address) as loader:
        with pytest.raises(headrace.BudgetError, match="42001 records are bad, more than the budget of 42000"):
            rows_of(loader)


def test_the_budget_s_end_names_every_culprit():
    bad = list(range(10, 90, 2))
    dataset = damaged("budget", 400, bad)
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=1, order="none", bad_budget=0.05)
    listed = feed.SCRATCH / "budget.jsonl"
    with feed.Sidecar(keys, "--quarantine", listed) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            with pytest.raises(headrace.BudgetError, match=r"more than the budget of 20: \d+, \d+") as caught:
                rows_of(loader)
        log = sidecar.log.read_text()
    assert str(listed) in str(caught.value)
    told = {int(n) for line in re.findall(r"bad records:((?: \d+)+)", log) for n in line.split()}
    lines = quarantined(listed)
    assert len(told) == 21 and told <= set(bad)
    assert {line["record"] for line in lines} >= told
    assert {line["code"] for line in lines} == {"HR_E_CHECKSUM"}


def test_many_bad_in_a_row_end_the_run():
    dataset = damaged("row", 200, list(range(50, 200)))
    keys = feed.conf(dataset, fields=FIELDS, batch=10, epochs=1, order="none", bad_budget=1,
                     bad_consecutive=20, bad_records="mask", workers=1)
    with headrace.Loader(keys) as loader:
        with pytest.raises(headrace.BudgetError, match="20 samples in a row are bad"):
            rows_of(loader)


@pytest.mark.parametrize("full", ["/dev/full", "limit"])
def test_a_full_disk_does_not_stop_feeding(full, tmp_path):
    if full == "/dev/full" and not os.path.exists(full):
        pytest.skip("no /dev/full here")
    dataset = damaged("full" + full.strip("/").replace("/", "-"), 400, range(0, 40))
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=2, order="none", bad_budget=0.5, last="keep")
    listed = Path(full if full != "limit" else tmp_path / "q.jsonl")

    limit = 64 << 20  # room for shared memory, which counts too

    def confine():
        if full == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    if full == "limit":
        with open(listed, "wb") as file:
            file.truncate(limit - 100)
    conf = feed.write_conf(tmp_path / "c.json", keys)
    path = str(tmp_path / "s")
    log = open("/dev/full", "w") if full == "/dev/full" else subprocess.DEVNULL
    process = subprocess.Popen([feed.BIN, "serve", str(conf), "--socket", path, "--quarantine", str(listed)],
                               stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=confine)
    try:
        assert process.stdout.readline().startswith("ready")
        with headrace.Loader("unix:" + path) as loader:
            rows = rows_of(loader)
        assert sum(len(records) for records, _, _ in rows) == 800
        assert all(all(valid) for _, valid, _ in rows)
        if full == "limit":
            assert listed.stat().st_size == limit
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_failing_storage_is_retried_and_changes_nothing():
    keys = feed.small(records=256, epochs=1)
    with headrace.Loader(keys) as loader:
        want = rows_of(loader)
    with feed.Sidecar(keys, "--fault", "seed=3,eio=0.2,short=0.2,stall=2s@5") as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            assert rows_of(loader) == want
            stats = loader.stats()
    assert stats["read_errors"] > 0 and stats["bad_samples"] == 0


def test_moving_about_while_storage_fails_makes_no_record_bad(tmp_path):
    """Reads for batches that nobody wants any more are not tried again, and their records are none the worse."""
    keys = feed.small(records=640, batch=64, bad_records="fail")
    listed = tmp_path / "bad.jsonl"
    with feed.Sidecar(keys, "--fault", "seed=3,eio=0.2,short=0.2,delay=2ms:0.3", "--quarantine", listed) as sidecar:
        with headrace.Loader(sidecar.address, timeout=20) as loader:
            for epoch in range(1, 13):
                loader.set_epoch(epoch)
                if epoch % 6 == 0:
                    batch = next(iter(loader))
                    assert (batch.epoch, batch.step) == (epoch, 0)
            stats = loader.stats()
    assert stats["read_errors"] > 0 and stats["bad_records"] == stats["bad_samples"] == 0
    assert not listed.exists() or listed.read_text() == ""


def test_flipped_bits_never_reach_a_batch():
    keys = feed.small(records=256, epochs=1, bad_budget=0.5)
    with headrace.Loader(keys) as loader:
        clean = {}
        for batch in loader:
            for i, record in enumerate(batch.records):
                clean[int(record)] = batch["image"][i].copy()
    with feed.Sidecar(keys, "--fault", "seed=4,flip=0.2") as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            for batch in loader:
                assert batch.valid.all()
                for i, record in enumerate(batch.records):
                    np.testing.assert_array_equal(batch["image"][i], clean[int(record)])
            assert loader.stats()["bad_checksum"] > 0


def test_damaged_records_are_substituted_the_same_way_on_every_rank_and_rerun():
    dataset = damaged("flips", 320, range(3, 320, 7))
    keys = feed.conf(dataset, fields=FIELDS, batch=16, epochs=1, bad_budget=0.5)

    one = records_of_steps(keys, 1)
    assert len(one) == 20
    assert not {r for step in one for r in step} & set(range(3, 320, 7))
    assert all(records_of_steps(keys, world) == one for world in (1, 2, 4))
