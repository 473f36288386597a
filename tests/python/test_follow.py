"""Boxes, keypoints and masks that follow a picture: the delivered box is compared with the painted rectangle as it is
seen in the delivered picture and in the delivered mask, for every op that moves pixels; and with numbers by hand where
an op draws nothing."""
import json
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

COLOUR = {1: (250, 20, 20), 2: (20, 250, 20)}
TAGS = {1: None, 2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90",
        7: "TRANSVERSE", 8: "ROTATE_270"}  # from upright to stored


def corners(x1, y1, x2, y2):
    return [[x1, y1], [x2, y1], [x2, y2], [x1, y2]]


def palette_png(ids, path, bits=8):
    mask = Image.fromarray(ids, mode="P")
    mask.putpalette(np.random.default_rng(1).integers(0, 256, 3 << bits).astype(np.uint8).tobytes())
    mask.save(path, bits=bits)


def write_set(folder, records, orientation=lambda i: 1, pack=()):
    """Pictures with two painted rectangles in the middle, apart from one another; their boxes, corners and masks."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    lines = []
    for i in range(records):
        w, h = int(rng.integers(90, 200)), int(rng.integers(90, 200))
        pixels, ids = np.full((h, w, 3), 110, np.uint8), np.zeros((h, w), np.uint8)
        boxes = []
        for k, (left, right) in enumerate(((0.2, 0.5), (0.5, 0.8))):
            x1, x2 = (int(v * w) for v in (left + rng.uniform(0, 0.1), right - rng.uniform(0, 0.1)))
            y1, y2 = (int(v * h) for v in (rng.uniform(0.2, 0.4), rng.uniform(0.6, 0.8)))
            pixels[y1:y2, x1:x2] = COLOUR[k + 1]
            ids[y1:y2, x1:x2] = k + 1
            boxes.append([x1, y1, x2, y2])
        picture, tag = Image.fromarray(pixels), orientation(i)
        if tag > 1:
            picture = picture.transpose(getattr(Image.Transpose, TAGS[tag]))
        exif = Image.Exif()
        exif[0x112] = tag
        picture.save(folder / f"{i}.png", exif=exif)
        if tag > 1:
            assert (np.asarray(ImageOps.exif_transpose(Image.open(folder / f"{i}.png"))) == pixels).all()
        palette_png(ids, folder / f"{i}-ids.png")
        lines.append({"image": f"@{i}.png", "mask": f"@{i}-ids.png", "boxes": boxes,
                      "points": [corners(*b) for b in boxes], "size": [w, h]})
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    dataset = folder.with_suffix(".hrd")
    feed.run("pack", "-q", folder / "set.jsonl", dataset, "--type", "boxes=f64[n,4]", "--type", "points=f32[n,4,2]",
             "--type", "size=i64[2]", *pack)
    return dataset, lines


@pytest.fixture(scope="module")
def painted(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("follow") / "painted", 24)


FOLLOWERS = {"mask": {"follow": "image"}, "boxes": {"follow": "image", "as": "boxes"},
             "points": {"follow": "image", "as": "keypoints"}, "size": None}


def samples(dataset, ops, batch=4, epochs=1, image=None, **keys):
    """(record, name -> array) of each sample, copied."""
    fields = {"image": {"ops": ops, **(image or {})}, **FOLLOWERS, **keys}
    with headrace.Loader({"dataset": str(dataset), "batch": batch, "epochs": epochs, "order": "none",
                          "fields": fields}) as loader:
        for b in loader:
            for i in range(b.count):
                yield int(b.records[i]), {name: np.array(b[name][i]) for name in b.keys()}


def seen(found):
    """The box around what is found, in pixel edges; None where there is nothing."""
    rows, columns = np.nonzero(found)
    return None if not len(rows) else np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])


def is_colour(pixels, k):
    r, g = pixels[..., 0].astype(int), pixels[..., 1].astype(int)
    return (r - g > 115) if k == 1 else (g - r > 115)


def is_turned(name):
    return any(word in name for word in ("rotate", "affine", "perspective", "augment", "all"))


NEAREST, BILINEAR = {"interpolation": "nearest"}, {"interpolation": "bilinear"}
MOVES = {
    "random_resized_crop": [{"random_resized_crop": {"size": [120, 150], "scale": [0.3, 1]}}, {"hflip": 0.5}],
    "resize": [{"resize": [140, 90]}],
    "center_crop": [{"center_crop": [120, 170]}],
    "resize, center_crop": [{"resize": 110}, {"center_crop": 100}],
    "random_crop": [{"random_crop": {"size": [100, 100], "pad_if_needed": True, "pad": 15}}],
    "random_crop, reflect": [{"random_crop": {"size": [80, 80], "pad": 8, "mode": "reflect"}}],
    "flips": [{"hflip": 0.5}, {"vflip": 0.5}, {"resize": [130, 130]}],
    "rotate": [{"resize": [150, 130]}, {"rotate": {"degrees": 40}}],
    "rotate, bilinear": [{"resize": [150, 130]}, {"rotate": {"degrees": 180, **BILINEAR}}],
    "affine": [{"resize": [150, 150]},
               {"affine": {"degrees": 20, "translate": [0.1, 0.1], "scale": [0.7, 1.2], "shear": [-9, 9, -9, 9]}}],
    "perspective": [{"resize": [150, 170]}, {"perspective": {"distortion_scale": 0.5, "p": 1, **NEAREST}}],
    "rand_augment": [{"resize": [120, 120]}, {"rand_augment": {"num_ops": 3, "magnitude": 20}}],
    "trivial_augment": [{"resize": [120, 120]}, "trivial_augment"],
    "auto_augment": [{"resize": [120, 120]}, {"auto_augment": "imagenet"}],
    "all of it": [{"random_resized_crop": {"size": 130, "scale": [0.5, 1]}}, {"color_jitter": {"hue": 0.01}},
                  {"perspective": {"distortion_scale": 0.2, "p": 1}}, {"rotate": 15}, {"center_crop": 110},
                  {"hflip": 0.5}, {"erasing": {"p": 1, "scale": [0.001, 0.002]}}],
}


@pytest.mark.parametrize("name", MOVES)
def test_the_box_is_where_the_painted_rectangle_is(painted, name):
    dataset, _ = painted
    colours = "augment" not in name and name != "all of it"  # there they change
    # The tip of a turned rectangle can lie between the middles of pixels, and each step to the nearest adds to that.
    slack = 2 if name == "all of it" else 1.5 if is_turned(name) else 1
    compared = 0
    for _, s in samples(dataset, MOVES[name], epochs=3):
        h, w = s["mask"].shape
        assert s["image"].shape == (h, w, 3)
        for k in (1, 2):
            box, kept, at = s["boxes"][k - 1], s["boxes.kept"][k - 1], s["points"][k - 1]
            inside = ((at >= 0) & (at <= [w, h])).all()
            assert (((at >= 0) & (at <= [w, h])).all(1) == s["points.kept"][k - 1]).all()
            edges = np.concatenate([at.min(0), at.max(0)]).clip(0, [w, h, w, h])
            assert np.abs(edges - box).max() < 1e-3
            for found in (s["mask"] == k, is_colour(s["image"], k) if colours else None):
                painted_box = seen(found) if found is not None else None
                if found is not None and painted_box is None:
                    assert not kept or not inside or min(box[2:] - box[:2]) < 2
                if painted_box is None or "reflect" in name:
                    continue
                assert (painted_box[:2] >= box[:2] - slack).all() and (painted_box[2:] <= box[2:] + slack).all(), (box, at)
                if inside:
                    assert np.abs(painted_box - box).max() <= slack, (name, painted_box, box)
                    compared += 1
    assert compared > 25 or "reflect" in name


def test_numbers_by_hand(painted):
    dataset, lines = painted
    ops = [{"center_crop": [120, 100]}, {"resize": [60, 200]}, {"hflip": 1.0}]
    for record, sample in samples(dataset, ops):
        w, h = lines[record]["size"]
        # what is missing is padded, half of it before, rounded down; else round() has halves to even
        left, top = (-((s - n) // 2) if n < s else round((n - s) / 2) for n, s in ((w, 100), (h, 120)))
        for box, got, kept in zip(lines[record]["boxes"], sample["boxes"], sample["boxes.kept"]):
            x1, y1, x2, y2 = box
            want = np.array([200 - (x2 - left) * 2, (y1 - top) / 2, 200 - (x1 - left) * 2, (y2 - top) / 2])
            want = want.clip(0, [200, 60, 200, 60])
            assert np.abs(got - want).max() < 1e-9
            assert kept == ((want[2:] - want[:2]) >= 1).all()


def test_a_rotation_by_numpy(painted):
    dataset, lines = painted
    c, s = np.cos(np.radians(25)), np.sin(np.radians(25))  # counter-clockwise as one sees it: y points down
    turn = np.array([[c, s], [-s, c]])
    for record, got in samples(dataset, [{"rotate": {"degrees": [25, 25]}}], image={"output": {"ragged": True}}):
        w, h = lines[record]["size"]
        middle = np.array([w, h]) / 2
        for box, is_box, points in zip(lines[record]["boxes"], got["boxes"], got["points"]):
            at = (np.array(corners(*box)) - middle) @ turn.T + middle
            want = np.concatenate([at.min(0), at.max(0)]).clip(0, [w, h, w, h])
            assert np.abs(points - at).max() < 1e-3 and np.abs(is_box - want).max() < 1e-9


@pytest.mark.parametrize("exif", ["apply", "ignore"])
def test_orientations(tmp_path, exif):
    dataset, lines = write_set(tmp_path / "turned", 16, orientation=lambda i: i % 8 + 1)
    tags = set()
    for record, s in samples(dataset, [{"resize": [128, 128]}], image={"exif": exif}, batch=1) if exif == "apply" else ():
        tags.add(record % 8 + 1)
        for k in (1, 2):
            for found in (is_colour(s["image"], k), s["mask"] == k):
                assert np.abs(seen(found) - s["boxes"][k - 1]).max() <= 1
    if exif == "apply":
        assert tags == set(range(1, 9))
        return
    # Numbers of a picture that is left as it lies are numbers of it as it lies: the mask of an upright one misfits.
    fields = {"image": {"ops": [{"resize": [128, 128]}], "exif": "ignore"}, "mask": {"follow": "image"}}
    conf = {"dataset": str(dataset), "batch": 16, "epochs": 1, "bad_records": "mask", "bad_budget": 1, "order": "none",
            "fields": fields}
    with headrace.Loader(conf) as loader:
        valid = next(iter(loader)).valid
    sizes = [line["size"] for line in lines]
    assert [bool(v) for v in valid] == [i % 8 < 4 or sizes[i][0] == sizes[i][1] for i in range(16)]


# ---- masks ----


def ids_of(dataset, bits, **options):
    conf = {"dataset": str(dataset), "batch": 1, "epochs": 1, "order": "none",
            "fields": {"image": {"output": {"ragged": True}}, "mask": {"follow": "image", **options}}}
    with headrace.Loader(conf) as loader:
        return [np.array(b["mask"][0]) for b in loader]


def gray_png(path, ids, bits, interlaced=False):
    """Gray of few bits, by hand: Pillow has none of 2 and 4."""
    import struct
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    def rows(part):
        out = b""
        for row in part:
            line = "".join(f"{v:0{bits}b}" for v in row)
            line += "0" * (-len(line) % 8)
            out += b"\0" + int(line, 2).to_bytes(len(line) // 8, "big")
        return out

    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    parts = [ids[y::dy, x::dx] for x, y, dx, dy in passes] if interlaced else [ids]
    data = b"".join(rows(p) for p in parts if p.size)
    h, w = ids.shape
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, bits, 0, 0, 0, interlaced)) +
                     chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


@pytest.mark.parametrize("png", ["keep", "repack"])
def test_ids_are_what_the_png_says(tmp_path, png):
    rng = np.random.default_rng(2)
    wanted, lines = [], []
    for i, (kind, bits) in enumerate([("P", 8), ("P", 4), ("P", 2), ("P", 1), ("L", 8), ("LA", 8), ("1", 1), ("gray", 1),
                                      ("gray", 2), ("gray", 4), ("gray", 8), ("laced", 1), ("laced", 2), ("laced", 4),
                                      ("laced", 8), ("tiff", 8), ("bmp", 8)]):
        ids = rng.integers(0, 1 << bits, (31, 45)).astype(np.uint8)
        path = tmp_path / f"{i}.png"
        if kind == "P":
            palette_png(ids, path, bits)
        elif kind in ("gray", "laced"):
            gray_png(path, ids, bits, kind == "laced")
        elif kind == "LA":
            Image.merge("LA", [Image.fromarray(ids), Image.fromarray(255 - ids)]).save(path)
        elif kind == "1":
            Image.fromarray(ids * 255).convert("1").save(path)
        else:
            path = tmp_path / f"{i}.{kind if kind != 'L' else 'png'}"
            Image.fromarray(ids).save(path)
        Image.new("RGB", (45, 31)).save(tmp_path / f"{i}-image.png")
        wanted.append(ids)
        lines.append({"image": f"@{i}-image.png", "mask": f"@{path.name}"})
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    feed.run("pack", "-q", f"--png={png}", tmp_path / "set.jsonl", tmp_path / "set.hrd")
    for dtype in ("u8", "i32", "i64"):
        got = ids_of(tmp_path / "set.hrd", 8, output={"dtype": dtype})
        for i, (a, b) in enumerate(zip(wanted, got)):
            assert b.dtype == {"u8": np.uint8, "i32": np.int32, "i64": np.int64}[dtype]
            assert (a == b).all(), (i, lines[i])


def test_pictures_without_ids_are_refused_by_name(tmp_path):
    rng = np.random.default_rng(2)
    rgb = rng.integers(0, 256, (31, 45, 3)).astype(np.uint8)
    Image.fromarray(rgb).save(tmp_path / "i.png")
    cases = {"rgb.png": rgb, "x.jpg": rgb[..., 0], "deep.png": rgb[..., 0].astype(np.uint16) * 257, "x.webp": rgb}
    for name, pixels in cases.items():
        Image.fromarray(pixels).save(tmp_path / name)
        (tmp_path / "set.jsonl").write_text(json.dumps({"image": "@i.png", "mask": f"@{name}"}))
        dataset = tmp_path / f"{name}.hrd"
        feed.run("pack", "-q", tmp_path / "set.jsonl", dataset)
        conf = {"dataset": str(dataset), "batch": 1, "bad_records": "fail",
                "fields": {"image": {"output": {"ragged": True}}, "mask": {"follow": "image"}}}
        with pytest.raises(headrace.Error, match="class ids.*") as error:
            next(iter(headrace.Loader(conf)))
        assert "mask" in str(error.value)


def test_fill_is_what_lies_outside(painted):
    dataset, _ = painted
    ops = [{"center_crop": 260}, {"rotate": {"degrees": [45, 45], "fill": 7}}]
    for _, s in samples(dataset, ops, mask={"follow": "image", "fill": 255}):
        assert (s["mask"][[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all() and set(np.unique(s["mask"])) == {0, 1, 2, 255}


# ---- what is missing ----


def test_nothing_in_a_picture_and_no_picture(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "i.png")
    lines = [{"image": "@i.png", "boxes": [], "points": []}, {"image": "@i.png"}, {"boxes": [[1, 2, 3, 4]]},
             {"image": "@i.png", "boxes": [[1, 2, 30, 4], [5, 6, 7, 8]], "points": [[1, 2, 2]]}]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    feed.run("pack", "-q", tmp_path / "set.jsonl", tmp_path / "set.hrd", "--type", "boxes=i32[n,4]", "--type",
             "points=f32[n,3]")
    fields = {"boxes": {"follow": "image", "as": "boxes", "format": "xywh", "output": {"format": "xyxy", "dtype": "f32"}},
              "points": {"follow": "image", "as": "keypoints"}, "image": {"ops": [{"resize": [60, 80]}]}}
    conf = {"dataset": str(tmp_path / "set.hrd"), "batch": 4, "epochs": 1, "order": "none", "fields": fields}
    with headrace.Loader(conf) as loader:
        b = next(iter(loader))
        assert [x.shape for x in b["boxes"]] == [(0, 4), (0, 0), (0, 0), (2, 4)]
        assert list(b["boxes.present"]) == [True, False, False, True]
        assert list(b["image.present"]) == [True, True, False, True]
        assert (b["boxes"][3] == [[2, 4, 62, 12], [10, 12, 24, 28]]).all()
        assert b["boxes.kept"][3].tolist() == [True, True]
        assert (b["points"][3] == [[2, 4, 2]]).all() and b["points"][0].shape == (0, 3)


def test_a_mask_of_another_size_is_a_bad_record_with_its_place(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "i.png")
    Image.new("L", (30, 40)).save(tmp_path / "m.png")
    (tmp_path / "set.jsonl").write_text(json.dumps({"image": "@i.png", "mask": "@m.png"}))
    feed.run("pack", "-q", tmp_path / "set.jsonl", tmp_path / "set.hrd")
    conf = {"dataset": str(tmp_path / "set.hrd"), "batch": 1, "bad_records": "fail",
            "fields": {"image": {"ops": [{"resize": [9, 9]}]}, "mask": {"follow": "image"}}}
    with pytest.raises(headrace.Error, match=r"the mask is 30 x 40 pixels, the picture that it follows \(image\) 40 x 30"):
        next(iter(headrace.Loader(conf)))


def plain_set(tmp_path, name, lines):
    """Pictures of 40 x 30, black, wherever a line has one; a mask where it says so, of another size where it is bad."""
    folder = tmp_path / name
    folder.mkdir()
    Image.new("RGB", (40, 30)).save(folder / "i.png")
    Image.new("L", (40, 30)).save(folder / "good.png")
    Image.new("L", (30, 40)).save(folder / "bad.png")
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    types = [t for key in ("boxes",) if any(key in line for line in lines) for t in ("--type", f"{key}=f32[n,4]")]
    feed.run("pack", "-q", folder / "set.jsonl", folder.with_suffix(".hrd"), *types)
    return str(folder.with_suffix(".hrd"))


def test_a_substitute_brings_its_own_boxes(tmp_path):
    lines = [{"image": "@i.png", "mask": f"@{'bad' if i % 3 == 1 else 'good'}.png",
              "boxes": [[k, k, k + 10 + i, k + 20] for k in range(i * 7 % 11)]} for i in range(30)]
    fields = {"image": {"ops": [{"resize": [30, 40]}]}, "mask": {"follow": "image"},
              "boxes": {"follow": "image", "as": "boxes"}}
    conf = {"dataset": plain_set(tmp_path, "set", lines), "batch": 10, "epochs": 3, "bad_budget": 1, "fields": fields}
    substituted = 0
    with headrace.Loader(conf) as loader:
        for _ in range(3):
            for b in loader:
                assert (np.diff(b["boxes.kept"].offsets) * 4 == np.diff(b["boxes"].offsets)).all()
                substituted += b.bad_count
                for i in range(10):
                    record = int(b.records[i])
                    assert record % 3 != 1 and b.valid[i]
                    want = np.array(lines[record]["boxes"], np.float32).reshape(-1, 4)
                    want = want.clip(0, [40, 30, 40, 30])
                    assert b["boxes"][i].shape == want.shape and (b["boxes"][i] == want).all()
                    assert b["boxes.kept"][i].shape == want.shape[:1] and b["boxes.kept"][i].all()
    assert substituted == 30


def test_sources_that_lack_the_one_or_the_other(tmp_path):
    whole = plain_set(tmp_path, "whole", [{"image": "@i.png", "mask": "@good.png", "boxes": [[1, 2, 11, 12]]}] * 4)
    bare = plain_set(tmp_path, "bare", [{"image": "@i.png"}] * 4)
    blind = plain_set(tmp_path, "blind", [{"mask": "@good.png", "boxes": [[1, 2, 11, 12]]}] * 4)
    fields = {"mask": {"follow": "image"}, "boxes": {"follow": "image", "as": "boxes"},
              "image": {"ops": [{"resize": [30, 40]}]}}
    conf = {"dataset": [{"path": p, "repeats": 1} for p in (whole, bare, blind)], "batch": 12, "epochs": 1,
            "fields": fields}
    with headrace.Loader(conf) as loader:
        b = next(iter(loader))
        assert sorted(b.sources) == [0] * 4 + [1] * 4 + [2] * 4
        for i, source in enumerate(b.sources):
            assert b["image.present"][i] == (source != 2)
            assert b["mask.present"][i] == b["boxes.present"][i] == (source == 0)
            assert b["boxes"][i].tolist() == ([[1, 2, 11, 12]] if source == 0 else [[0] * 4])  # of one shape: zeros
            assert b["boxes.kept"][i].tolist() == [source == 0]


# ---- from the files that people have ----


def test_coco_by_the_tutorial(tmp_path, monkeypatch):
    """The tutorial's own lines, its pack command and conf/detection.yaml, over a small set in COCO's form."""
    rng = np.random.default_rng(9)
    images, annotations = [], []
    (tmp_path / "images").mkdir()
    for i in range(9):
        w, h = int(rng.integers(120, 200)), int(rng.integers(120, 200))
        pixels = np.full((h, w, 3), 110, np.uint8)
        for _ in range(i % 3):
            x, y = int(rng.integers(20, w // 2)), int(rng.integers(20, h // 2))
            bw, bh = int(rng.integers(30, 50)), int(rng.integers(30, 50))
            pixels[y:y + bh, x:x + bw] = COLOUR[1]
            annotations.append({"id": len(annotations), "image_id": 100 + i, "category_id": 3 + i, "bbox": [x, y, bw, bh]})
        Image.fromarray(pixels).save(tmp_path / "images" / f"{i}.jpg", quality=95)
        images.append({"id": 100 + i, "file_name": f"{i}.jpg", "width": w, "height": h})
    (tmp_path / "instances.json").write_text(json.dumps({"images": images, "annotations": annotations}))
    text = (feed.ROOT / "docs" / "tutorial.md").read_text().split("## 7. Boxes and masks")[1]
    monkeypatch.chdir(tmp_path)
    exec(text.split("```python\n")[1].split("```")[0], {})
    feed.run("pack", "train.jsonl", "coco.hrd", "--type", "boxes=f32[n,4]", "--type", "labels=i64[n]")
    assert "pack train.jsonl coco.hrd --type 'boxes=f32[n,4]' --type 'labels=i64[n]'" in text
    conf = (feed.ROOT / "conf" / "detection.yaml").read_text().replace("batch: 64", "batch: 3")
    (tmp_path / "detection.yaml").write_text(conf)
    assert "boxes.kept" in feed.run("check", "detection.yaml").stdout
    seen_boxes = 0
    with headrace.Loader("detection.yaml") as loader:
        for _ in range(4):
            for batch in loader:
                for i in range(3):
                    boxes, kept, labels = (batch[name][i] for name in ("boxes", "boxes.kept", "labels"))
                    record = int(batch.records[i])
                    assert len(boxes) == len(kept) == len(labels) == record % 3 and (labels == 3 + record).all()
                    image = np.array(batch["image"][i], np.float32).transpose(1, 2, 0)
                    image = (image * [0.229, 0.224, 0.225] + [0.485, 0.456, 0.406]) * 255
                    found = seen(image[..., 0] - image[..., 1] > 60)
                    if record % 3 != 1 or found is None:
                        continue
                    assert kept[0] and np.abs(found - boxes[0]).max() < 12  # a pixel of the source is up to 10 wide
                    seen_boxes += 1
    assert seen_boxes > 6


def packed(tmp_path, lines, *types):
    (tmp_path / "set.jsonl").write_text("\n".join(lines))
    dataset = tmp_path / "set.hrd"
    said = feed.run("pack", tmp_path / "set.jsonl", dataset, *[a for t in types for a in ("--type", t)], code=None)
    return dataset, said


def test_lists_of_numbers_become_arrays(tmp_path):
    lines = ['{"a": [[1, 2.5], [3, -4e2]], "b": [1, 2, 3], "c": [[[1, 2, 2], [3, 4, 1]]], "d": 1}',
             '{"a": [], "b": [-9223372036854775808, 9223372036854775807, 0], "c": [[1, 2, 2, 3, 4, 1], [5, 6, 0, 7, 8, 0]]}',
             '{"a": [5, 6, 7, 8], "b": [0, 0, 0], "c": [1, 2, 2, 3, 4, 1]}', '{"a": null, "b": [7, 8, 9]}']
    dataset, said = packed(tmp_path, lines, "a=f32[n,2]", "b=i64[3]", "c=i32[n,2,3]")
    assert said.returncode == 0 and "0 rejected" in said.stdout, said.stderr
    with headrace.Loader({"dataset": str(dataset), "batch": 4, "order": "none"}) as loader:
        b = next(iter(loader))
        assert b["a"].dtype_name == "f32" and b["b"].dtype == np.int64
        assert [x.tolist() for x in b["a"]] == [[[1, 2.5], [3, -400]], [], [[5, 6], [7, 8]], []]
        assert b["a"][1].shape == (0, 2) and list(b["a.present"]) == [True, True, True, False]
        assert b["b"].tolist() == [[1, 2, 3], [-(1 << 63), (1 << 63) - 1, 0], [0, 0, 0], [7, 8, 9]]
        assert [x.shape for x in b["c"]][:3] == [(1, 2, 3), (2, 2, 3), (1, 2, 3)]
        assert b["c"][1].ravel().tolist() == [1, 2, 2, 3, 4, 1, 5, 6, 0, 7, 8, 0]


@pytest.mark.parametrize("kind, value", [
    ("f32[n,4]", "[[1, 2, 3]]"), ("f32[n,4]", "[1, 2, 3]"), ("f32[n,4]", "[[1, 2, 3, 4], 5]"), ("f32[4]", "[]"),
    ("f32[n]", "[1, [2]]"), ("f32[n]", '["1"]'), ("f32[n]", "[true]"), ("f32[n]", "[null]"), ("f32[n]", "[1e39]"),
    ("f64[n]", "[1e999]"), ("f64[n]", "[NaN]"), ("i64[n]", "[1.5]"), ("i64[n]", "[9223372036854775808]"),
    ("i32[n]", "[2147483648]"), ("u8[n]", "[-1]"), ("u8[n]", "[256]"), ("f32[n]", "3"), ("f32[n]", '{"x": 1}'),
    ("f32[n]", '"@x.npy"'), ("f32[n,2,2]", "[[[1, 2], [3, 4, 5]]]"),
])
def test_lists_that_do_not_fit_reject_their_record(tmp_path, kind, value):
    dataset, said = packed(tmp_path, [f'{{"a": {value}}}', '{"b": 1}'], f"a={kind}")
    assert said.returncode == 0 and "1 rejected" in said.stdout, said.stdout + said.stderr
    assert len((dataset / "rejects.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("kind", ["f32", "f32[]", "f16[n]", "f32[n,n]", "f32[4,n]", "f32[0]", "f32[n", "f32[n]x", "f32[n,1,1,1,1,1,1]",
                                  "f32[99999999999999999999]", "tensor"])
def test_types_that_are_none_are_refused(tmp_path, kind):
    assert packed(tmp_path, ['{"a": [1]}'], f"a={kind}")[1].returncode == 2


# ---- order and state ----


def test_ranks_and_restarts_change_nothing(painted):
    dataset, _ = painted
    fields = {"image": {"ops": MOVES["random_resized_crop"] + [{"rotate": 20}]}, **FOLLOWERS}
    conf = {"dataset": str(dataset), "batch": 8, "epochs": 2, "fields": fields}

    def parts(batch):
        return [{name: np.array(batch[name][i]) for name in batch.keys()} for i in range(batch.count)]

    def same(a, b):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert all((x[name] == y[name]).all() for name in x)

    whole, state = [], None
    with headrace.Loader(conf) as loader:
        for step, batch in enumerate(loader):
            whole += parts(batch)
            if step == 1:
                state = loader.state_dict()
        for batch in loader:
            whole += parts(batch)
    with headrace.Loader(conf, state=state) as loader:
        again = [s for _ in range(2) for batch in loader for s in parts(batch)]
    same(again, whole[16:])
    with feed.Sidecar(conf) as sidecar:
        loaders = [headrace.Loader(sidecar.address, rank=r, world=2) for r in range(2)]
        shares = [[s for _ in range(2) for batch in loader for s in parts(batch)] for loader in loaders]
        for loader in loaders:
            loader.close()
    for rank, share in enumerate(shares):
        same(share, [s for i, s in enumerate(whole) if i % 8 // 4 == rank])
    # Without the followers, the pictures are the same ones.
    alone = {**conf, "fields": {"image": fields["image"]}}
    with headrace.Loader(alone) as loader:
        for i, batch in enumerate(loader):
            for k in range(8):
                assert (batch["image"][k] == whole[8 * i + k]["image"]).all()


# ---- refusals ----


@pytest.mark.parametrize("fields, text", [
    ("{image: {ops: [{resize: [9, 9]}]}, @boxes: {follow: image}}", "as: boxes or as: keypoints"),
    ("{boxes: {follow: @image, as: boxes}}", "not among the fields"),
    ("{image: {ops: [{resize: [9, 9]}]}, mask: {follow: image}, boxes: {follow: @mask, as: boxes}}", "no image field"),
    ("{image: {ops: [{resize: [9, 9]}]}, mask: {follow: image, ops: [@hflip]}}", "no ops of its own"),
    ("{image: {ops: [{resize: [9, 9]}]}, size: {follow: image, as: @boxes}}", "shape [2]"),
    ("{image: {ops: [{resize: [9, 9]}]}, boxes: {follow: image, as: boxes, format: @xyzw}}", "xyxy"),
    ("{image: {ops: [{resize: [9, 9]}]}, boxes: {follow: image, as: boxes, @origin: center}}", "origin"),
    ("{image: {ops: [{resize: [9, 9]}]}, mask: {follow: image, as: @boxes}}", "mask"),
    ("{image: {ops: [{resize: [9, 9]}]}, points: {follow: image, as: keypoints, mirror: @[0, 5]}}", "point 5"),
    ("{image: {ops: [{resize: [9, 9]}]}, mask: {follow: image, output: {dtype: @f16}}}", "i64"),
])
def test_what_cannot_be_is_refused_at_its_place(painted, tmp_path, fields, text):
    path = tmp_path / "p.yaml"
    line = f"fields: {fields}"
    path.write_text(f"dataset: {painted[0]}\nbatch: 4\n{line.replace('@', '')}\n")
    said = feed.run("check", path, code=None)
    assert said.returncode != 0 and text in said.stderr
    assert f"p.yaml:3:{line.index('@') + 1}" in said.stderr, said.stderr


@pytest.mark.parametrize("images, text", [("image", "'mask' follows 'image', which is mixed"), ("mask", "'mask' is a mask")])
def test_what_is_mixed_of_two_pictures_has_no_followers(painted, tmp_path, images, text):
    conf = {"dataset": str(painted[0]), "batch": 4, "fields": {**FOLLOWERS, "image": {"ops": [{"resize": [9, 9]}]}},
            "blend": {"images": images, "labels": "size", "num_classes": 3, "mixup": 1}}
    (tmp_path / "p.yaml").write_text(json.dumps(conf))
    assert text in feed.run("check", tmp_path / "p.yaml", code=2).stderr


def test_init_lets_masks_follow(painted, tmp_path):
    text = feed.run("init", painted[0]).stdout
    assert "  mask:\n    follow: image #" in text and "{follow: image, as: boxes, format: xyxy" in text
    assert "{follow: image, as: keypoints}" in text
    (tmp_path / "p.yaml").write_text(text)
    assert "mask                  image   u8" in feed.run("check", tmp_path / "p.yaml").stdout
