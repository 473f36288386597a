"""What is wrong is said at once and by name: damaged datasets, sockets, pipeline files, exit codes."""
import io
import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

FIELDS = {"image": {"ops": [{"center_crop": 32}]}, "label": None}


def jpeg(seed):
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize((64, 48), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


def make(folder, spoil=(), count=40):
    """A dataset of pictures of which those in `spoil` are cut in the middle: their checksums are right."""
    src = folder / "src" / "a"
    src.mkdir(parents=True)
    for i in range(count):
        data = jpeg(i)
        if i in spoil:
            data = data[:len(data) // 2]
        (src / f"{i:03}.jpg").write_bytes(data)
    feed.run("pack", folder / "src", folder / "d.hrd", "-q")
    return folder / "d.hrd"


def flip_in_value(dataset, record, field="image"):
    """Flips a bit in the middle of a value; its place is known from what inspect extracts."""
    value = Path(str(dataset) + ".value")
    feed.run("inspect", dataset, record, "--extract", field, "--raw", "--out", value)
    shard = dataset / "data-00000.hrs"
    data = bytearray(shard.read_bytes())
    at = data.find(value.read_bytes())
    assert at > 0
    data[at + value.stat().st_size // 2] ^= 4
    shard.write_bytes(data)


def epoch(keys):
    with headrace.Loader(keys) as loader:
        rows = [(b.records.tolist(), b.valid.tolist(), feed.digest(b), b.bad_count) for b in loader]
        return rows, loader.stats()


def keys(dataset, **more):
    return feed.conf(dataset, **{"batch": 8, "fields": FIELDS, "bad_budget": 1, **more})


# ---- bad records ----

BAD = [3, 17, 30]


@pytest.fixture(scope="module", params=["flipped bit", "cut picture"])
def spoiled(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    if request.param == "cut picture":
        return make(folder, spoil=BAD), "image"
    dataset = make(folder)
    for record in BAD:
        flip_in_value(dataset, record)
    return dataset, "checksum"


def test_a_bad_record_is_substituted_the_same_way_everywhere(spoiled):
    dataset, _ = spoiled
    rows, stats = epoch(keys(dataset))
    ids = [r for row in rows for r in row[0]]
    assert len(ids) == 40 and not set(ids) & set(BAD)
    assert set(ids) == set(range(40)) - set(BAD)
    assert all(all(row[1]) for row in rows) and sum(row[3] for row in rows) == 3
    assert stats["bad_records"] == 3 and stats["bad_samples"] >= 3
    for more in ({"workers": 1}, {"workers": 4, "reader": "preadv"}):
        assert epoch(keys(dataset, **more))[0] == rows
    with feed.Sidecar(keys(dataset)) as sidecar:
        parts = []
        for rank in range(2):
            with headrace.Loader(sidecar.address, rank=rank, world=2) as loader:
                parts.append([b.records.tolist() for b in loader])
        assert [a + b for a, b in zip(*parts)] == [row[0] for row in rows]


@pytest.mark.parametrize("policy", ("substitute", "mask"))
def test_a_sample_counts_once_however_often_it_was_read(spoiled, policy):
    with headrace.Loader(keys(spoiled[0], bad_records=policy, epochs=3)) as loader:
        for _ in range(3):
            for batch in loader:
                del batch
        feed.eventually(lambda: loader.stats()["samples"] == loader.stats()["batches"] * 8)
        stats = loader.stats()
    assert stats["bad_samples"] >= 9 and stats["samples"] == 15 * 8, stats


def test_a_bad_record_is_masked(spoiled):
    dataset, _ = spoiled
    with headrace.Loader(keys(dataset, bad_records="mask")) as loader:
        bad = []
        for batch in loader:
            for i, (record, valid) in enumerate(zip(batch.records, batch.valid)):
                if not valid:
                    bad.append(int(record))
                    assert not batch["image"][i].any()
                else:
                    assert batch["image"][i].any()
        assert sorted(bad) == BAD
        assert loader.stats()["bad_records"] == 3


def test_a_bad_record_ends_the_run(spoiled):
    dataset, word = spoiled
    with pytest.raises(headrace.Error, match=word) as e:
        epoch(keys(dataset, bad_records="fail"))
    assert e.value.record in BAD and e.value.field == "image" and "data-00000.hrs" in e.value.shard
    assert isinstance(e.value, (headrace.ChecksumError, headrace.DecodeError, headrace.TruncatedError))


def test_bad_records_are_logged_once_and_listed(spoiled, tmp_path):
    dataset, _ = spoiled
    with feed.Sidecar(keys(dataset), "--quarantine", tmp_path / "q.jsonl") as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            feed.take(loader, 25)
        log = sidecar.log.read_text()
    listed = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert sorted(row["record"] for row in listed) == BAD
    for record in BAD:
        lines = [line for line in log.splitlines() if f"record {record}:" in line]
        assert len(lines) == 1, log


def texts(folder, count, bad):
    """A dataset of texts; those below `bad` are damaged."""
    folder.mkdir()
    (folder / "t.jsonl").write_text("".join(f'{{"text": "text number {i:06} {"x" * 80}"}}\n' for i in range(count)))
    feed.run("pack", folder / "t.jsonl", folder / "t.hrd", "-q")
    shard = folder / "t.hrd" / "data-00000.hrs"
    data = bytearray(shard.read_bytes())
    for i in range(bad):
        data[data.index(b"text number %06d" % i)] ^= 4
    shard.write_bytes(data)
    return folder / "t.hrd"


@pytest.mark.parametrize("count, budget, most", [
    (100, 0.29, 29), (100, 0.57, 57), (200, 0.115, 23),  # products that are a little less in doubles
    (100, 0.295, 29), (20000, 0.001, 20), (60, 0, 16), (10, 0.5, 10), (30, 1, 30),
])
def test_the_budget_is_exact(tmp_path, count, budget, most):
    for bad in sorted({most, min(most + 1, count)}):
        plan = feed.conf(texts(tmp_path / str(bad), count, bad), batch=10, order="none", bad_records="mask",
                         bad_budget=budget, bad_consecutive=1000, epochs=1)
        with headrace.Loader(plan) as loader:
            if bad <= most:
                assert sum(not v for b in loader for v in b.valid) == bad
                continue
            with pytest.raises(headrace.BudgetError, match=f"^{bad} records are bad, more than the budget of {most}:"):
                for _ in loader:
                    pass


@pytest.mark.parametrize("most", [1, 5])
def test_a_row_of_bad_samples_is_exact(tmp_path, most):
    # In a row as they are finished, which is not quite the order of the batch: so all, or fewer than a row.
    for bad in (most - 1, 20):
        plan = feed.conf(texts(tmp_path / str(bad), 20, bad), batch=10, order="none", bad_records="mask",
                         bad_budget=1, bad_consecutive=most, workers=1, epochs=1)
        with headrace.Loader(plan) as loader:
            if bad < most:
                assert len(list(loader)) == 2
                continue
            with pytest.raises(headrace.BudgetError, match=f"^{most} sample"):
                list(loader)


@pytest.mark.parametrize("before", ["", "{}\n", '{"dataset":"half', "\0\xff garbage", "\n"])
def test_what_is_in_the_quarantine_file_swallows_no_line(tmp_path, before):
    dataset, listed = texts(tmp_path / "d", 20, 3), tmp_path / "q.jsonl"
    listed.write_bytes(before.encode("latin1"))
    with feed.Sidecar(feed.conf(dataset, batch=10, order="none", bad_budget=1, epochs=1),
                      "--quarantine", listed) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            assert len(list(loader)) == 2
    data = listed.read_bytes()
    assert data.startswith(before.encode("latin1"))
    lines = data[len(before):].decode().split("\n")
    assert sorted(json.loads(line)["record"] for line in lines if line) == [0, 1, 2]


def test_a_quarantine_pipe_that_nobody_reads_stops_nothing(tmp_path):
    os.mkfifo(tmp_path / "q")
    with feed.Sidecar(feed.conf(texts(tmp_path / "d", 20, 3), batch=10, order="none", bad_budget=1, epochs=1),
                      "--quarantine", tmp_path / "q") as sidecar:
        with headrace.Loader(sidecar.address, timeout=20) as loader:
            assert len(list(loader)) == 2


def test_the_budget_ends_a_run_of_rubbish(tmp_path):
    dataset = make(tmp_path, spoil=range(0, 40, 2))
    with pytest.raises(headrace.BudgetError, match="bad_budget"):
        with headrace.Loader(keys(dataset, bad_budget=0.05)) as loader:
            feed.take(loader, 200)


def test_records_that_are_all_bad_end_the_run(tmp_path):
    dataset = make(tmp_path, spoil=range(40))
    for policy in ("substitute", "mask"):
        with pytest.raises(headrace.BudgetError):
            with headrace.Loader(keys(dataset, bad_records=policy, bad_consecutive=20)) as loader:
                feed.take(loader, 200)


# ---- damaged datasets ----


def refused(config, kind, words, **options):
    before = feed.children()
    with pytest.raises(kind) as e:
        with headrace.Loader(config, **{"timeout": 5, **options}) as loader:
            feed.take(loader, 3)
    for word in [words] if isinstance(words, str) else words:
        assert word in str(e.value), str(e.value)
    assert feed.children() == before
    return e.value


def exit_code(config, tmp_path, words):
    path = feed.write_conf(tmp_path / "c.json", config)
    for argv in (["check", path], ["serve", path, "--socket", tmp_path / "s"], ["bench", path, "--seconds", 0.1]):
        r = feed.run(*argv, code=None)
        assert r.returncode in (2, 3), (argv, r.returncode, r.stderr)
        assert words in r.stderr and r.stdout == "", (argv, r.stderr)
        assert not (tmp_path / "s").exists()
    return r.returncode


@pytest.fixture
def dataset(tmp_path):
    shutil.copytree(feed.synth("images", 40, "--width", 160, "--height", 120, "--shard-size", "64k"), tmp_path / "d.hrd")
    return tmp_path / "d.hrd"


def test_a_truncated_shard(dataset, tmp_path):
    shard = sorted(dataset.glob("*.hrs"))[1]
    os.truncate(shard, shard.stat().st_size // 2)
    refused(keys(dataset), headrace.Error, shard.name)
    exit_code(keys(dataset), tmp_path, shard.name)
    assert feed.run("verify", dataset, code=1).stdout.count(shard.name) >= 1


def test_a_missing_shard(dataset, tmp_path):
    shard = sorted(dataset.glob("*.hrs"))[1]
    shard.unlink()
    refused(keys(dataset), headrace.Error, shard.name)
    exit_code(keys(dataset), tmp_path, shard.name)


def test_a_shard_of_another_dataset(dataset, tmp_path):
    other = feed.synth("images", 40, "--width", 160, "--height", 120, "--shard-size", "64k", "--seed", 5)
    name = sorted(dataset.glob("*.hrs"))[1].name
    shutil.copy(other / name, dataset / name)
    refused(keys(dataset), headrace.Error, name)
    exit_code(keys(dataset), tmp_path, name)


def test_a_flipped_bit_in_the_manifest(dataset, tmp_path):
    path = dataset / "dataset.hrm"
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 7):
        spoiled = bytearray(data)
        spoiled[at] ^= 1
        path.write_bytes(spoiled)
        r = feed.run("check", feed.write_conf(tmp_path / "c.json", keys(dataset)), code=None)
        assert r.returncode in (2, 3) and "dataset.hrm" in r.stderr, (at, r.returncode, r.stderr)


def test_no_dataset(tmp_path):
    for path, word in ((tmp_path / "none.hrd", "none.hrd"), (tmp_path, str(tmp_path.name))):
        refused(keys(path), headrace.Error, word)
        assert exit_code(keys(path), tmp_path, word) == 2


def test_a_dataset_that_may_not_be_read(dataset, tmp_path):
    if os.geteuid() == 0:
        script = (f"setpriv --reuid 65534 --regid 65534 --clear-groups {feed.BIN} check {tmp_path / 'c.json'}")
        feed.write_conf(tmp_path / "c.json", keys(dataset))
        for folder in (tmp_path, *tmp_path.parents):
            if folder == Path("/") or folder == Path("/tmp"):
                break
            folder.chmod(0o755)
        dataset.chmod(0o700)
        import subprocess
        r = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
        if "setpriv" in r.stderr and r.returncode == 127:
            pytest.skip("no setpriv here")
        assert r.returncode in (2, 3) and "d.hrd" in r.stderr and "denied" in r.stderr.lower(), r.stderr
    else:
        dataset.chmod(0)
        refused(keys(dataset), headrace.DeniedError, "d.hrd")


def test_an_empty_dataset(tmp_path):
    (tmp_path / "e.jsonl").write_text("")
    r = feed.run("pack", tmp_path / "e.jsonl", tmp_path / "e.hrd", "--from", "jsonl", code=None)
    if r.returncode:
        assert r.returncode == 2 and not (tmp_path / "e.hrd" / "dataset.hrm").exists()
        return
    refused(feed.conf(tmp_path / "e.hrd", batch=1), headrace.Error, "record")


# ---- sockets ----


def test_sockets_that_are_none(tmp_path):
    refused(f"unix:{tmp_path}/none", headrace.DisconnectedError, ["none", "headrace serve"], timeout=0.3)
    (tmp_path / "file").write_text("x")
    e = refused(f"unix:{tmp_path}/file", headrace.Error, "file", timeout=0.3)
    assert "file" in str(e)
    refused(f"unix:{tmp_path}/{'x' * 200}", headrace.UsageError, "107 bytes", timeout=0.3)
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stale.bind(str(tmp_path / "stale"))
    stale.close()
    refused(f"unix:{tmp_path}/stale", headrace.DisconnectedError, "stale", timeout=0.3)


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path):
    with feed.Sidecar(feed.small(), path=tmp_path / "s") as first:
        first.kill()
        assert (tmp_path / "s").is_socket()
        with feed.Sidecar(feed.small(), path=tmp_path / "s") as second:
            r = feed.run("serve", second.conf, "--socket", second.path, code=None)
            assert r.returncode in (2, 3) and "already serving" in r.stderr
            with headrace.Loader(second.address) as loader:
                assert len(feed.take(loader, 3)) == 3


def test_socket_paths_that_cannot_be_listened_at(tmp_path):
    conf = feed.write_conf(tmp_path / "c.json", feed.small())
    (tmp_path / "file").write_text("x")
    for path, word in ((tmp_path / "file", "not a socket"), (tmp_path / ("x" * 200), "long"),
                       (tmp_path / "no" / "s", "no/s")):
        r = feed.run("serve", conf, "--socket", path, code=None)
        assert r.returncode in (2, 3) and word in r.stderr and r.stdout == "", r.stderr
    assert (tmp_path / "file").read_text() == "x"


def test_a_socket_is_its_owner_s_alone(tmp_path):
    with feed.Sidecar(feed.small(), path=tmp_path / "s"):
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


def test_a_rank_that_is_taken():
    with feed.Sidecar(feed.small()) as sidecar, headrace.Loader(sidecar.address, rank=0, world=2):
        with pytest.raises(headrace.BusyError, match="rank 0 of 2"):
            headrace.Loader(sidecar.address, rank=0, world=2, timeout=0.5)
        with headrace.Loader(sidecar.address, rank=1, world=2) as other:
            assert feed.take(other, 2)


# ---- pipeline files ----

DATASET = "dataset: {d}\n"
SMALL = "\nbatch: 8\n"


@pytest.mark.parametrize("text, place, words", [
    ("batchs: 8\n", "2:1", "batch"),
    ("batch: eight\n", "2:8", "batch"),
    ("batch: 0\n", "2:8", "from 1"),
    ("slots: 257\n", "2:8", "256"),
    ("order: ful\n", "2:8", "full"),
    ("last: dorp\n", "2:7", "drop"),
    ("fields: {imag: }\n", "2:10", "image"),
    ("fields:\n  image:\n    ops:\n    - center_crop: 32\n    - hflop\n", "6:7", "hflip"),
    ("fields:\n  image:\n    ops:\n    - center_crop: {siz: 32}\n", "5:2", "size"),
    ("fields:\n  image:\n    ops: [{center_crop: 32}]\n    output: {dtype: f17}\n", "5:21", "f16"),
    ("fields: {image: }\n", "2:10", "ragged"),
    ("batch: 8\nbatch: 9\n", "3:1", "batch"),
    ("batch: [8\n", "", ""),
    ("seed: !!int 3\n", "2:", "tag"),
    ("bad_budget: 2\n", "2:13", "1"),
])
def test_mistakes_in_the_file_have_their_place(text, place, words, tmp_path):
    dataset = feed.synth("images", 40, "--width", 64, "--height", 48)
    path = tmp_path / "train.yaml"
    path.write_text(DATASET.format(d=dataset) + text + ("" if "batch" in text else SMALL))
    r = feed.run("check", path, code=2)
    assert f"{path}:{place}" in r.stderr and words in r.stderr and r.stdout == "", r.stderr
    e = refused(path, headrace.ConfigError, [f"train.yaml:{place}", words])
    assert e.code == -2
    assert feed.run("serve", path, "--socket", tmp_path / "s", code=2).stdout == ""


def test_a_world_that_does_not_divide_the_batch():
    with feed.Sidecar(feed.small()) as sidecar:
        e = refused(sidecar.address, headrace.ConfigError, ["8", "3 ranks", "1, 2, 4, 8"], rank=0, world=3)
        assert e.code == -2
        with headrace.Loader(sidecar.address, rank=3, world=4) as loader:
            assert feed.take(loader, 1)


def test_more_memory_than_there_is(tmp_path):
    config = feed.small(batch=4096, slots=256, last="wrap",
                        fields={"image": {"ops": [{"resize": [4096, 4096]}], "output": {"dtype": "f32"}}})
    refused(config, headrace.Error, "slots")


@pytest.mark.parametrize("config", [5, None, b"x", "/dev/null", "unix:", "fd:x", "fd:999", {}, {"dataset": 5},
                                    {"dataset": ""}, {"dataset": []}, {"dataset": "a\0b"}, "x\0y"])
def test_arguments_that_make_no_sense(config):
    with pytest.raises((headrace.Error, TypeError, ValueError)):
        headrace.Loader(config, timeout=2)
    assert feed.children() == []
