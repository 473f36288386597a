"""Repacked JPEG through the whole of Headrace: the same pixels as the files themselves, the same bytes back."""
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import headrace

BIN = os.environ["HEADRACE_BIN"]
SHARED = pathlib.Path(os.environ.get("HR_SHARED") or next(
    (p / "shared" for p in pathlib.Path(__file__).resolve().parents if (p / "shared").is_dir()), "missing"))
PHOTOS = SHARED / "data/images"


def run(*command):
    return subprocess.run([BIN, *map(str, command)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """The same photographs packed as they are and repacked."""
    if not PHOTOS.is_dir():
        pytest.skip(f"skipped: no photographs at {PHOTOS}")
    work = tmp_path_factory.mktemp("repack")
    source = work / "source"
    source.mkdir()
    names = sorted(PHOTOS.glob("flowers/*/*.jpg"))[::12] + sorted(PHOTOS.glob("coco/*.jpg"))[::8] \
        + sorted(PHOTOS.glob("photos-420/*.jpg"))[::8] + sorted(PHOTOS.glob("formats/jpeg/*")) \
        + sorted(PHOTOS.glob("formats/exif-orientation/*"))[4:6]
    for i, path in enumerate(names):
        (source / f"{i:03d}{path.suffix}").symlink_to(path)
    packed = {}
    for how in ("keep", "repack"):
        packed[how] = json.loads(run("pack", source, work / how, "--json", f"--jpeg={how}"))
        packed[how]["path"] = work / how
    packed["files"] = names
    return packed


def pixels(dataset, ops, output):
    with headrace.Loader(headrace_config(dataset, ops, output)) as loader:
        out = []
        for batch in loader:
            image = batch["image"]
            out += [np.array(image[i]) for i in range(len(batch.records))]
        return out


def headrace_config(dataset, ops, output):
    return {"dataset": str(dataset), "batch": 8, "last": "keep", "order": "none", "epochs": 1,
            "fields": {"image": {"ops": ops, "output": output}}}


def test_all_photographs_are_repacked(datasets):
    report = datasets["repack"]
    assert report["jpeg_repacked"] == report["records"]
    assert report["jpeg_repacked"] + report["jpeg_kept"] == report["records"]
    why = report["jpeg_kept_because"]
    assert sum(why.values()) == report["jpeg_kept"]
    assert report["jpeg_kept"] == 0
    assert report["jpeg_repacked_progressive"] > 0 and report["jpeg_repacked_cmyk"] == 2
    assert datasets["keep"]["jpeg_repacked"] == 0


def test_all_photographs_together_take_nine_percent_more_at_most(datasets, tmp_path):
    report = json.loads(run("pack", PHOTOS, tmp_path / "all", "--json"))
    assert (report["jpeg_repacked"], report["jpeg_repacked_progressive"], report["jpeg_repacked_cmyk"]) == (640, 21, 2)
    assert 1 < report["jpeg_repacked_to_bytes"] / report["jpeg_repacked_from_bytes"] <= 1.09


@pytest.mark.parametrize("ops, output", [
    ([{"random_resized_crop": {"size": 96}}, {"hflip": {"p": 0.5}},
      {"normalize": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}], {"dtype": "f16", "layout": "nchw"}),
    ([{"center_crop": 64}], {"dtype": "u8", "layout": "nhwc"}),
    ([], {"ragged": True}),
], ids=["train", "crop", "whole"])
def test_pixels_are_those_of_the_files(datasets, ops, output):
    kept = pixels(datasets["keep"]["path"], ops, output)
    repacked = pixels(datasets["repack"]["path"], ops, output)
    assert len(kept) == len(repacked) == datasets["keep"]["records"]
    for i, (a, b) in enumerate(zip(kept, repacked)):
        assert a.shape == b.shape and np.array_equal(a, b), f"record {i}"


def test_counts_and_sizes_are_told(datasets, tmp_path):
    report = datasets["repack"]
    field = json.loads(run("inspect", report["path"], "--json"))["fields"]["image"]
    assert field["repacked"] == report["jpeg_repacked"]
    assert field["bytes"] - field["original_bytes"] == \
        report["jpeg_repacked_to_bytes"] - report["jpeg_repacked_from_bytes"]
    assert f"({field['repacked']} repacked, originals " in run("inspect", report["path"])

    source = tmp_path / "source"
    source.mkdir()
    names = datasets["files"]
    for i in (0, len(names) - 1):
        (source / names[i].name).write_bytes(names[i].read_bytes())
    whole = names[0].read_bytes()
    (source / "cut.jpg").write_bytes(whole[:len(whole) // 2])
    text = run("pack", source, tmp_path / "packed")
    assert "2 JPEG pictures repacked (" in text and "x), 1 kept as it is (1 damaged)" in text


def test_every_file_comes_back(datasets, tmp_path):
    for i, path in enumerate(datasets["files"]):
        out = tmp_path / "out"
        run("inspect", datasets["repack"]["path"], "--extract", "image", "--record", i, "--out", out)
        assert out.read_bytes() == path.read_bytes(), path.name


def test_damage_is_found(datasets, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in datasets["repack"]["path"].iterdir():
        data = bytearray(path.read_bytes())
        if path.suffix == ".hrs":
            data[len(data) // 3] ^= 4
        (copy / path.name).write_bytes(data)
    done = subprocess.run([BIN, "verify", copy], capture_output=True, text=True)
    assert done.returncode == 1
