"""Several views of one picture through the whole system: shapes, the first view as it is without views, views that
differ, one read for all, and the example file."""
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
from PIL import Image

import headrace

BIN = os.environ["HEADRACE_BIN"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
CROP = [{"random_resized_crop": {"size": 48}}, {"hflip": {"p": 0.5}}, {"color_jitter": {"brightness": 0.5}}]
SMALL = [{"random_resized_crop": {"size": 16, "scale": [0.05, 0.3]}}]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    work = tmp_path_factory.mktemp("views")
    (work / "source").mkdir()
    for i in range(20):
        y, x = np.mgrid[0:180 + 7 * i, 0:260 - 5 * i].astype(np.int32)
        pixels = np.stack([x * (i + 1) + y & 255, x + y * 2 & 255, x * y >> 5 & 255], -1).astype(np.uint8)
        Image.fromarray(pixels).save(work / f"source/{i:02}.{'png' if i % 5 == 4 else 'jpg'}")
        (work / f"source/{i:02}.txt").write_text(f"caption {i}")
    for how in ("keep", "repack"):
        subprocess.run([BIN, "pack", work / "source", work / how, "-q", f"--jpeg={how}"], check=True)
    return work


def config(dataset, **field):
    return {"dataset": str(dataset), "batch": 5, "epochs": 2, "seed": 3, "fields": {"image": field}}


def load(dataset, **field):
    arrays = {}
    with headrace.Loader(config(dataset, **field)) as loader:
        for _ in range(2):
            for batch in loader:
                for name in batch:
                    arrays.setdefault(name, []).append(np.array(batch[name]))
                    arrays.setdefault(name + " layout", []).append(batch.layout(name))
    return {k: v[0] if k.endswith("layout") else np.concatenate(v) for k, v in arrays.items()}


@pytest.mark.parametrize("how", ["keep", "repack"])
def test_a_number_of_views(work, how):
    one, two = load(work / how, ops=CROP), load(work / how, ops=CROP, views=2)
    assert two["image"].shape == (40, 2, 48, 48, 3) and two["image layout"] == "nvhwc"
    assert np.array_equal(one["image"], two["image"][:, 0])
    assert not any(np.array_equal(a, b) for a, b in two["image"])
    planar = load(work / how, ops=CROP, views=2, output={"dtype": "f16", "layout": "nchw"})
    assert planar["image"].shape == (40, 2, 3, 48, 48) and planar["image layout"] == "nvchw"
    assert np.array_equal(np.moveaxis(planar["image"], 2, 4), (two["image"] / np.float32(255)).astype(np.float16))


def test_named_views(work):
    views = {"global": {"count": 2, "ops": CROP}, "local": {"count": 8, "ops": SMALL, "output": {"layout": "nchw"}}}
    got = load(work / "repack", views=views)
    assert set(k for k in got if "layout" not in k) == {"image.global", "image.local"}
    assert got["image.global"].shape == (40, 2, 48, 48, 3) and got["image.local"].shape == (40, 8, 3, 16, 16)
    assert np.array_equal(got["image.global"], load(work / "keep", ops=CROP, views=2)["image"])
    assert np.array_equal(got["image.local"], load(work / "keep", views=views)["image.local"])
    flat = got["image.local"].reshape(40, 8, -1)
    assert all(len(np.unique(sample, axis=0)) == 8 for sample in flat)


def test_the_plan_knows_the_views(work):
    def check(**field):
        out = subprocess.run([BIN, "check", "-", "--json"], input=json.dumps(config(work / "repack", **field)), text=True,
                             capture_output=True, check=True)
        return json.loads(out.stdout)

    plans = [check(ops=CROP), check(ops=CROP, views=2), check(ops=CROP, views=3),
             check(views={"a": {"ops": CROP}}), check(views={"b": {"ops": CROP}}),
             check(views={"a": {"ops": CROP, "count": 2}, "b": {"ops": CROP}})]
    assert len({p["plan"] for p in plans}) == len(plans)
    assert plans[1]["fields"][0]["shape"] == [5, 2, 48, 48, 3] and plans[1]["fields"][0]["layout"] == "nvhwc"
    assert [f["name"] for f in plans[5]["fields"]] == ["image.a", "image.b"]
    assert plans[2]["slot_bytes"] > plans[1]["slot_bytes"] > plans[0]["slot_bytes"]


def test_views_of_anything_but_pictures_are_refused(work):
    for field in ({"views": 2}, {"views": {"a": {"ops": CROP}}}):
        out = subprocess.run([BIN, "check", "-"], text=True, capture_output=True,
                             input=json.dumps({**config(work / "repack"), "fields": {"text": field}}))
        assert out.returncode == 2 and "views" in out.stderr and ":1:" in out.stderr


def test_what_would_follow_views_is_refused(work, tmp_path):
    (tmp_path / "source").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "source/0.png")
    np.save(tmp_path / "source/0.npy", np.array([[1, 1, 20, 20]], np.float32))
    subprocess.run([BIN, "pack", tmp_path / "source", tmp_path / "d", "-q"], check=True)
    for field, code in (({"ops": CROP}, 0), ({"ops": CROP, "views": 2}, 2), ({"views": {"a": {"ops": CROP}}}, 2)):
        fields = {"image": field, "tensor": {"follow": "image", "as": "boxes"}}
        out = subprocess.run([BIN, "check", "-"], text=True, capture_output=True,
                             input=json.dumps({"dataset": str(tmp_path / "d"), "batch": 1, "fields": fields}))
        assert out.returncode == code and (code == 0 or "without views" in out.stderr)


def test_the_example_loads(work):
    text = (ROOT / "conf/self-supervised.yaml").read_text()
    text = re.sub(r"(?m)^dataset: .*$", f"dataset: {work / 'repack'}", text).replace("batch: 256 ", "batch: 4 ")
    path = work / "example.yaml"
    path.write_text(text)
    with headrace.Loader(str(path)) as loader:
        batch = next(iter(loader))
        shapes = {name: batch[name].shape for name in batch}
        assert np.isfinite(batch["image.local"]).all()
    assert shapes == {"image.global1": (4, 1, 3, 224, 224), "image.global2": (4, 1, 3, 224, 224),
                      "image.local": (4, 8, 3, 96, 96)}
