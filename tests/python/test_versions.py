"""Versions of a dataset: what pack --append adds and keeps, pinning, checking and deleting."""
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import sandbox  # noqa: E402
import headrace  # noqa: E402
from headrace import errors  # noqa: E402


def run(*args, code=0):
    r = subprocess.run([feed.BIN, *map(str, args)], capture_output=True, text=True)
    assert r.returncode == code, (args, r.stdout, r.stderr)
    return r


def js(*args):
    return json.loads(run(*args, "--json").stdout)


def lines(path, numbers, pad=80):
    path.write_text("".join(json.dumps({"n": i, "text": f"line {i} " + "x" * pad}) + "\n" for i in numbers))
    return path


def numbers(dataset, *more):
    rows = run("inspect", dataset, "--records", "0:100000", "--json", *more).stdout.splitlines()
    return [json.loads(row)["fields"]["n"] for row in rows]


def files(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def dataset(tmp_path):
    run("pack", lines(tmp_path / "a.jsonl", range(40)), tmp_path / "d")
    return tmp_path / "d"


def append(dataset, values, **kw):
    source = lines(dataset.parent / f"from{values[0]}.jsonl", values, **kw)
    return js("pack", source, dataset, "--append")


# ---- appending ----


def test_appended_records_come_behind_and_the_old_version_stays(dataset):
    before, manifest = files(dataset), (dataset / "dataset.hrm").read_bytes()
    old = js("inspect", dataset)["digest"]
    report = append(dataset, range(40, 60))
    assert report["previous"] == old and report["digest"] != old
    assert (report["records"], report["shards"]) == (20, 1)
    assert (report["total_records"], report["total_shards"]) == (60, 2)
    assert numbers(dataset) == list(range(60))
    assert numbers(dataset, "--version", old[:8]) == list(range(40))
    assert (dataset / "versions" / f"{old}.hrm").read_bytes() == manifest
    after = files(dataset)
    assert after["data-00000.hrs"] == before["data-00000.hrs"]
    assert sorted(after) == ["data-00000.hrs", "data-00001.hrs", "dataset.hrm", f"versions/{old}.hrm"]
    run("verify", dataset)


def test_versions_are_listed_with_the_current_one_first(dataset):
    first = js("inspect", dataset)["digest"]
    second = append(dataset, range(40, 60))["digest"]
    third = append(dataset, range(60, 63))["digest"]
    for rows in js("versions", dataset), js("inspect", dataset, "--versions"):
        assert [r["digest"] for r in rows] == [third, second, first]
        assert [r["records"] for r in rows] == [63, 60, 40]
        assert [r["shards"] for r in rows] == [3, 2, 1]
        assert [r["current"] for r in rows] == [True, False, False]


def test_the_same_appends_give_the_same_bytes(tmp_path):
    for name, jobs in ("d", "1"), ("e", "4"):
        run("pack", lines(tmp_path / "a.jsonl", range(40)), tmp_path / name)
        run("pack", lines(tmp_path / "b.jsonl", range(40, 90)), tmp_path / name, "--append", "--jobs", jobs)
    assert files(tmp_path / "d") == files(tmp_path / "e")


def test_fields_may_come_in_another_order(dataset, tmp_path):
    source = tmp_path / "b.jsonl"
    source.write_text("".join(json.dumps({"text": f"other {i} " + "y" * 80, "n": i}) + "\n" for i in range(3)))
    run("pack", source, dataset, "--append")
    row = json.loads(run("inspect", dataset, "41", "--json").stdout)
    assert row["fields"]["n"] == 1
    run("inspect", dataset, "41", "--extract", "text", "--out", tmp_path / "text")
    assert (tmp_path / "text").read_text().startswith("other 1 yy")


@pytest.mark.parametrize("row, field", [
    ({"n": "word " * 20, "text": "z" * 80}, "n"),
    ({"n": 1}, "text"),
    ({"n": 1, "text": "z" * 80, "more": 2}, "more"),
])
def test_a_source_with_other_fields_is_refused_by_name(dataset, tmp_path, row, field):
    before = files(dataset)
    (tmp_path / "b.jsonl").write_text(json.dumps(row) + "\n")
    for more in (), ("--dry-run",):
        r = run("pack", tmp_path / "b.jsonl", dataset, "--append", *more, code=2)
        assert f"field '{field}'" in r.stderr
    assert files(dataset) == before


def test_append_needs_a_dataset(tmp_path):
    source = lines(tmp_path / "a.jsonl", range(3))
    assert "without --append" in run("pack", source, tmp_path / "none", "--append", code=2).stderr
    assert not (tmp_path / "none").exists()


def folders(root, classes):
    for name, values in classes.items():
        (root / name).mkdir(parents=True)
        for value in values:
            np.save(root / name / f"{value}.npy", np.full(4, value, np.int32))
    return root


def test_classes_keep_their_numbers_and_new_ones_get_the_next(tmp_path):
    data = tmp_path / "d"
    run("pack", folders(tmp_path / "a", {"cat": [1, 2], "dog": [3]}), data)
    run("pack", folders(tmp_path / "b", {"ant": [4], "dog": [5, 6], "eel": [7]}), data, "--append")
    shown = js("inspect", data)
    assert [c["name"] if isinstance(c, dict) else c for c in shown["classes"]] == ["cat", "dog", "ant", "eel"]
    rows = [json.loads(r) for r in run("inspect", data, "--records", "0:9", "--json").stdout.splitlines()]
    assert [r["fields"]["label"] for r in rows] == [0, 0, 1, 2, 1, 1, 3]
    assert len(js("inspect", data, "--version", shown["previous"])["classes"]) == 2
    run("verify", data)
    with headrace.Loader({"dataset": str(data), "order": "none", "batch": 7, "epochs": 1}) as loader:
        batch = next(iter(loader))
        assert batch["label"].tolist() == [0, 0, 1, 2, 1, 1, 3]
        assert batch["tensor"][:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_numbers_do_not_go_into_a_field_of_named_classes(tmp_path):
    data, flat = tmp_path / "d", tmp_path / "b"
    run("pack", folders(tmp_path / "a", {"cat": [1], "dog": [3]}), data)
    flat.mkdir()
    for i in range(2):
        np.save(flat / f"{i}.npy", np.zeros(4, np.int32))
        (flat / f"{i}.cls").write_text("1")
    assert "field 'label'" in run("pack", flat, data, "--append", code=2).stderr


def test_rejected_records_have_a_list_of_their_own(dataset, tmp_path):
    (tmp_path / "b.jsonl").write_text(json.dumps({"n": 1, "text": "z" * 80}) + "\nnot json\n")
    report = js("pack", tmp_path / "b.jsonl", dataset, "--append")
    assert (report["records"], report["rejected"]) == (1, 1)
    assert len((dataset / "rejects-00001.jsonl").read_text().splitlines()) == 1
    (tmp_path / "c.jsonl").write_text(json.dumps({"n": 1, "text": "z" * 80}) + "\nnot json\n")
    run("pack", tmp_path / "c.jsonl", dataset, "--append", "--strict", code=1)
    assert js("inspect", dataset)["digest"] == report["digest"]
    assert not (dataset / ".pack-journal").exists()


# ---- kills ----


def kill_underway(args, dataset, shards):
    """Kills a pack once it has so many shards more; False when it was done before."""
    before = len(list(dataset.glob("*.hrs")))
    process = subprocess.Popen([feed.BIN, *map(str, args)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while process.poll() is None and len(list(dataset.glob("*.hrs"))) < before + shards:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def test_a_killed_append_leaves_the_old_version_and_resumes_to_the_same_bytes(tmp_path):
    more = lines(tmp_path / "b.jsonl", range(1000, 41000), pad=200)
    for name in "d", "e":
        run("pack", lines(tmp_path / "a.jsonl", range(40)), tmp_path / name)
    args = ["pack", more, "--append", "--shard-size", "128K", "--jobs", "1"]
    run(*args, tmp_path / "e")
    data = tmp_path / "d"
    old = js("inspect", data)["digest"]
    assert kill_underway([*args, data], data, 3), "the machine was too fast"
    assert js("inspect", data)["digest"] == old and numbers(data) == list(range(40))
    assert "belongs to no version" in run("verify", data).stderr
    assert "--resume" in run(*args, data, code=2).stderr
    assert "options changed" in run(*[a for a in args if a != "--append"], data, "--resume", code=2).stderr
    run(*args, data, "--resume")
    assert files(data) == files(tmp_path / "e")
    again = js(*args, data, "--resume")
    assert again["records"] == 40000 and again["previous"] == old
    assert files(data) == files(tmp_path / "e")


def test_an_unfinished_append_can_be_given_up(tmp_path):
    data = tmp_path / "d"
    run("pack", lines(tmp_path / "a.jsonl", range(40)), data)
    before = files(data)
    more = lines(tmp_path / "b.jsonl", range(1000, 41000), pad=200)
    args = ["pack", more, data, "--append", "--shard-size", "128K", "--jobs", "1"]
    assert kill_underway(args, data, 2), "the machine was too fast"
    assert js("versions", data, "--prune")["removed"]
    (data / "rejects-00001.jsonl").unlink(missing_ok=True)
    assert files(data) == before
    append(data, range(40, 50))
    assert numbers(data) == list(range(50))


def test_a_running_append_keeps_others_out(dataset, tmp_path):
    append(dataset, range(40, 50))
    with open(dataset / ".pack-journal", "w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        run("versions", dataset, "--prune", code=2)
        run("pack", lines(tmp_path / "c.jsonl", range(3)), dataset, "--append", code=2)
        run("pack", lines(tmp_path / "c.jsonl", range(3)), dataset, "--append", "--resume", code=2)
    assert (dataset / ".pack-journal").exists()


def test_a_kill_between_manifest_and_journal_is_no_second_append(dataset, tmp_path):
    more = lines(tmp_path / "b.jsonl", range(40, 20000))
    args = ["pack", more, dataset, "--append", "--shard-size", "64K"]
    process = subprocess.Popen([feed.BIN, *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = b""
    while process.poll() is None:
        try:
            journal = (dataset / ".pack-journal").read_bytes()
        except FileNotFoundError:
            pass
    assert journal
    want = files(dataset)
    (dataset / ".pack-journal").write_bytes(journal)
    assert js(*args, "--resume")["records"] == 19960
    assert files(dataset) == want


# ---- pinning ----


def keys(dataset, version=None, **more):
    source = {"path": str(dataset), **({"version": version} if version else {})}
    return {"dataset": source, "batch": 4, "seed": 3, "epochs": 1, "fields": {"n": None}, **more}


def test_a_pinned_run_goes_on_after_an_append(dataset):
    with headrace.Loader(keys(dataset)) as loader:
        rows = [(batch.records.tolist(), batch.state) for batch in loader]
    old = js("inspect", dataset)["digest"]
    append(dataset, range(40, 60))
    for version in old, old[:6], old.upper():
        with headrace.Loader(keys(dataset, version), state=rows[3][1]) as loader:
            assert [batch.records.tolist() for batch in loader] == [r for r, _ in rows[4:]]
    with pytest.raises(errors.StateError) as caught:
        with headrace.Loader(keys(dataset), state=rows[3][1]) as loader:
            next(iter(loader))
    assert old in str(caught.value) and f"version: {old}" in str(caught.value)


def test_a_state_of_no_version_has_no_pin_to_offer(dataset, tmp_path):
    run("pack", lines(tmp_path / "z.jsonl", range(7, 47)), tmp_path / "z")
    with headrace.Loader(keys(tmp_path / "z")) as loader:
        state = next(iter(loader)).state
    with pytest.raises(errors.StateError) as caught:
        with headrace.Loader(keys(dataset), state=state) as loader:
            next(iter(loader))
    assert "version:" not in str(caught.value)


def test_an_engine_that_is_started_again_keeps_its_version(dataset, tmp_path):
    conf = feed.write_conf(tmp_path / "c.json", keys(dataset, batch=2))
    process = subprocess.Popen([feed.BIN, "serve", str(conf), "--socket", str(tmp_path / "s")],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout.readline().startswith("ready")
        with headrace.Loader("unix:" + str(tmp_path / "s")) as loader:
            seen = []
            for batch in loader:
                seen += batch.records.tolist()
                if len(seen) == 8:
                    append(dataset, range(40, 60))
                    engines = feed.children(process.pid)
                    assert engines
                    for pid in engines:
                        os.kill(pid, signal.SIGKILL)
        assert sorted(seen) == list(range(40))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("version, words", [("feed", "no version 'feed'"), ("xyz", "digest"), ("ab", "digest")])
def test_a_version_that_is_not_there_is_refused_at_its_line(dataset, tmp_path, version, words):
    conf = feed.write_conf(tmp_path / "c.json", keys(dataset, version))
    assert words in run("check", conf, code=2).stderr


def test_a_version_of_digits_only_needs_no_quotes(dataset, tmp_path):
    conf = tmp_path / "c.yaml"
    for version in "00000000", "12e45678", "0x":
        conf.write_text(f"dataset: {{path: d, version: {version}}}\nbatch: 4\nfields: {{n: }}\n")
        stderr = run("check", conf, code=2).stderr
        assert ("no version" in stderr) == (version != "0x"), stderr


# ---- verify ----


def test_verify_covers_shards_of_all_versions(dataset):
    old = js("inspect", dataset)["digest"]
    new = append(dataset, range(40, 60))["digest"]
    # the old version as the current one: the second shard is of another version only
    current = (dataset / "dataset.hrm").read_bytes()
    (dataset / "dataset.hrm").write_bytes((dataset / "versions" / f"{old}.hrm").read_bytes())
    (dataset / "versions" / f"{new}.hrm").write_bytes(current)
    assert "2 shards" in run("verify", dataset).stdout
    shard = dataset / "data-00001.hrs"
    body = bytearray(shard.read_bytes())
    body[4100] ^= 1
    shard.write_bytes(body)
    assert "data-00001.hrs" in run("verify", dataset, code=1).stdout
    run("verify", dataset, "--version", old)


def test_verify_says_which_shards_belong_to_no_version(dataset):
    (dataset / "data-00009.hrs").write_bytes((dataset / "data-00000.hrs").read_bytes())
    r = run("verify", dataset)
    assert "data-00009.hrs belongs to no version" in r.stderr
    assert js("versions", dataset, "--prune")["removed"] == ["data-00009.hrs"]
    assert not (dataset / "data-00009.hrs").exists()
    assert numbers(dataset) == list(range(40))


# ---- deleting ----


def test_deleting_a_version_keeps_the_shards_that_others_have(dataset):
    old = js("inspect", dataset)["digest"]
    append(dataset, range(40, 60))
    assert js("versions", dataset, "--delete", old[:8]) == {"deleted": old, "shards": 0, "bytes": 0}
    assert len(js("versions", dataset)) == 1
    assert numbers(dataset) == list(range(60))
    run("verify", dataset)
    assert "no version" in run("versions", dataset, "--delete", old, code=2).stderr


def test_deleting_a_version_removes_the_shards_that_only_it_has(dataset):
    old = js("inspect", dataset)["digest"]
    new = append(dataset, range(40, 60))["digest"]
    current = (dataset / "dataset.hrm").read_bytes()
    (dataset / "dataset.hrm").write_bytes((dataset / "versions" / f"{old}.hrm").read_bytes())
    (dataset / "versions" / f"{new}.hrm").write_bytes(current)
    assert js("versions", dataset, "--delete", new)["shards"] == 1
    assert not (dataset / "data-00001.hrs").exists()
    assert numbers(dataset) == list(range(40))


def test_the_current_version_cannot_be_deleted(dataset):
    before = files(dataset)
    for more in (), ("--force",):
        r = run("versions", dataset, "--delete", js("inspect", dataset)["digest"], *more, code=2)
        assert "current version" in r.stderr
    assert files(dataset) == before


def test_a_version_in_use_is_not_deleted_without_force(dataset, tmp_path):
    """The run began before the append, and knows of no pin: it still has the version that it opened."""
    old = js("inspect", dataset)["digest"]
    conf = feed.write_conf(tmp_path / "c.json", keys(dataset))
    process = subprocess.Popen([feed.BIN, "serve", str(conf), "--socket", str(tmp_path / "s")],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout.readline().startswith("ready")
        append(dataset, range(40, 60))
        assert "in use" in run("versions", dataset, "--delete", old, code=2).stderr
        with headrace.Loader("unix:" + str(tmp_path / "s")) as loader:
            assert sorted(r for batch in loader for r in batch.records.tolist()) == list(range(40))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    with headrace.Loader(keys(dataset, old)) as loader:
        next(iter(loader))
        assert "in use" in run("versions", dataset, "--delete", old, code=2).stderr
        run("versions", dataset, "--delete", old, "--force")
    assert len(js("versions", dataset)) == 1


def test_nothing_is_deleted_while_a_manifest_cannot_be_read(dataset):
    old = js("inspect", dataset)["digest"]
    second = append(dataset, range(40, 60))["digest"]
    append(dataset, range(60, 70))
    kept = dataset / "versions" / f"{second}.hrm"
    kept.write_bytes(kept.read_bytes()[:-9])
    assert "cannot be read" in run("versions", dataset, "--delete", old, code=3).stderr
    run("versions", dataset, "--prune", code=3)
    run("pack", lines(dataset.parent / "x.jsonl", range(3)), dataset, "--append", code=2)
    assert numbers(dataset) == list(range(70))


# ---- folders that cannot be listed ----


def test_nothing_is_pruned_while_kept_versions_cannot_be_seen(dataset):
    """A shard that no version is seen to have is not one that no version has."""
    append(dataset, range(100, 110))
    before = files(dataset)
    (dataset / "versions").chmod(0)
    dataset.chmod(0o777)
    for path in [dataset, *dataset.parents]:
        if path.stat().st_uid == os.getuid() and path != Path("/tmp") and feed.SCRATCH not in path.parents:
            path.chmod(path.stat().st_mode | 0o755)
    who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        for args in (["--prune"], ["--json"], ["--delete", "0" * 32]):
            r = subprocess.run([feed.BIN, "versions", str(dataset), *args], capture_output=True, text=True, **who)
            assert r.returncode not in (0, 1) and "versions" in r.stderr and "ermission" in r.stderr, r
    finally:
        (dataset / "versions").chmod(0o755)
    assert files(dataset) == before


def test_a_list_that_breaks_off_is_an_error_everywhere(dataset, tmp_path):
    append(dataset, range(100, 110))
    before, source = files(dataset), tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("a")
    with sandbox.no_uring(5, "list") as box:
        for args in (["versions", dataset], ["versions", dataset, "--prune"], ["pack", source, tmp_path / "new"],
                     ["pack", source, dataset, "--append"]):
            r = box.run([feed.BIN, *args])
            assert r.returncode in (2, 3) and "nput/output error" in r.stderr, (args, r)
        r = box.run([feed.BIN, "verify", dataset])
        assert r.returncode in (1, 3) and "nput/output error" in r.stdout + r.stderr, r
    assert files(dataset) == before and not (tmp_path / "new").exists()
