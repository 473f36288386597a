"""Arguments that are not what a command wants: exit code 2, nothing done, and a message that says what to do instead."""
import gzip
import os
import resource
import zipfile

import pytest

import feed

READERS = ("inspect", "verify", "versions", "init", "check", "order", "bench")


def refused(*argv):
    r = feed.run(*argv, code=2)
    assert r.stdout == "" and r.stderr.count("\n") == 1, (argv, r.stdout, r.stderr)
    return r.stderr


@pytest.mark.parametrize("command", READERS)
def test_a_place_that_is_not_there(command, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("x")
    for name in ("nothing", "loop", "file/below", "x" * 300):
        text = refused(command, tmp_path / name)
        assert text.count(str(tmp_path)) == 1, text  # the place is said once


@pytest.mark.parametrize("command", ("check", "order", "bench", "serve"))
def test_a_dataset_where_a_pipeline_file_is_wanted(command, tmp_path):
    more = ["--socket", tmp_path / "s"] if command == "serve" else []
    assert "headrace init" in refused(command, feed.small()["dataset"], *more)


def test_a_pipeline_file_where_a_dataset_is_wanted(tmp_path):
    path = feed.write_conf(tmp_path / "c.json", feed.small())
    for command in ("inspect", "init"):
        assert "headrace pack" in refused(command, path)
    assert "dataset folder" in refused("versions", path)
    assert refused("inspect", tmp_path).count("dataset.hrm'") == 1  # a folder that is no dataset


def test_files_that_pack_does_not_read(tmp_path):
    for name, data, word in (("x.csv", b"a,b\n1,2\n", "read_csv"), ("x.tsv", b"a\tb\n1\t2\n", "read_csv"),
                             ("x", b"PAR1....PAR1", "read_parquet"), ("x.jsonl.gz", gzip.compress(b"{}"), "gunzip"),
                             ("x.jpg", b"\xff\xd8\xff", "the folder"), ("x.jsonl", b"\n\na,b\n1,2\n", "line 3: not JSON")):
        (tmp_path / name).write_bytes(data)
        assert word in refused("pack", tmp_path / name, tmp_path / "ds")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as z:
        z.writestr("a.jpg", b"x")
    assert "unzip" in refused("pack", tmp_path / "x.zip", tmp_path / "ds")
    assert not (tmp_path / "ds").exists()


def test_a_made_up_dataset_that_was_stopped_is_not_resumed(tmp_path):
    (tmp_path / "ds").mkdir()
    (tmp_path / "ds" / ".pack-journal").touch()
    for name, way_out in (("synth", "remove it"), ("pack", "--resume")):
        source = [] if name == "synth" else [feed.write_conf(tmp_path / "x.jsonl", {"a": 1})]
        text = refused(name, *source, tmp_path / "ds")
        assert way_out in text and (name == "pack") == ("--resume" in text), text


def test_pipes_and_devices_in_a_folder_are_said(tmp_path):
    feed.run("synth", tmp_path / "in", "--as", "folder", "--records", 4)
    os.mkfifo(tmp_path / "in" / "circle.jpg")
    (tmp_path / "in" / "zero.jpg").symlink_to("/dev/zero")
    r = feed.run("pack", tmp_path / "in", tmp_path / "ds")
    assert "packed 4 of 4" in r.stdout and "circle.jpg: a pipe" in r.stderr and "zero.jpg: a pipe" in r.stderr


def test_init_leaves_little_of_a_small_dataset_out(tmp_path):
    for records in (1, 6, 100, 250):
        feed.run("synth", tmp_path / str(records), "--kind", "text", "--records", records)
        (tmp_path / "c.yaml").write_text(feed.run("init", tmp_path / str(records)).stdout)
        first = feed.run("check", tmp_path / "c.yaml").stdout.splitlines()[0]
        left_out = int(first.split(" left out")[0].split()[-1]) if "left out" in first else 0
        batch = int(first.split("global batch ")[1].split(",")[0])
        assert left_out == records % batch and left_out <= records / 7, first


def limit_files(soft, hard=None):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard or soft))


def test_no_descriptor_left_rejects_no_record(tmp_path):
    """It says nothing about the file: a record must not go missing for it."""
    feed.run("synth", tmp_path / "in", "--as", "folder", "--records", 20)
    ended = set()
    for files in range(4, 16):
        r = feed.run("pack", tmp_path / "in", tmp_path / str(files), code=None, preexec_fn=limit_files(files))
        ended.add(r.returncode)
        assert ("20 of 20 records, 0 rejected" in r.stdout if r.returncode == 0 else
                r.returncode in (2, 3) and "ulimit -n" in r.stderr and "rejected" not in r.stderr), r
        assert (tmp_path / str(files) / "dataset.hrm").exists() == (r.returncode == 0)
    assert 0 in ended and 3 in ended


def test_a_low_soft_limit_of_descriptors_is_raised(tmp_path):
    feed.run("synth", tmp_path / "ds", "--kind", "text", "--records", 2000, "--shard-size", "64K")
    shards = len(list((tmp_path / "ds").glob("*.hrs")))
    path = feed.write_conf(tmp_path / "c.json", {"dataset": str(tmp_path / "ds"), "batch": 8})
    for argv in (["verify", tmp_path / "ds"], ["bench", path, "--batches", 4, "--warmup", 0]):
        feed.run(*argv, preexec_fn=limit_files(4 + shards, 1024))
