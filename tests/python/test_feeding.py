"""Batches of the real sidecar through the Python client: what they hold, and how long a slot is held."""
import ctypes
import gc
import json
import subprocess
import sys
import wave
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402
from headrace import _lib  # noqa: E402

SHARED = feed.shared()
needs_data = pytest.mark.skipif(not SHARED, reason="no shared data (set HR_SHARED)")
IMAGE_TOOL = feed.BUILD / "tests" / "golden" / "hr_image_tool"
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def files_of(dataset):
    """key -> (record, row of inspect)"""
    out = feed.run("inspect", dataset, "--records", "0:1000000", "--json").stdout
    return [json.loads(line) for line in out.splitlines()]


def rgb(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def photo_fields(ops, **output):
    return {"image": {"ops": ops, **({"output": output} if output else {})}, "label": None}


@pytest.fixture(scope="module")
def flowers():
    if not SHARED:
        pytest.skip("no shared data (set HR_SHARED)")
    folder = SHARED / "data" / "images" / "flowers"
    dataset = feed.pack("flowers", folder)
    rows = files_of(dataset)
    return dataset, [folder / row["key"] for row in rows], [row["fields"]["label"] for row in rows]


def epoch(keys, **options):
    with headrace.Loader(keys, **options) as loader:
        yield from loader


# ---- pictures ----


def test_center_crops_are_the_decoder_s_pixels_bit_for_bit(flowers):
    dataset, paths, _ = flowers
    seen = 0
    for batch in epoch(feed.conf(dataset, batch=24, fields=photo_fields([{"center_crop": 160}]))):
        images = batch["image"]
        assert images.shape == (24, 160, 160, 3) and images.dtype == np.uint8
        for record, got in zip(batch.records, images):
            whole = rgb(paths[record])
            y, x = [round((n - 160) / 2) for n in whole.shape[:2]]
            assert np.array_equal(got, whole[y:y + 160, x:x + 160]), paths[record]
            seen += 1
    assert seen == 240


def test_labels_are_the_class_folders(flowers):
    dataset, paths, _ = flowers
    classes = sorted({p.parent.name for p in paths})
    for batch in epoch(feed.conf(dataset, batch=48, fields={"label": None})):
        assert batch["label"].dtype == np.int64
        want = [classes.index(paths[r].parent.name) for r in batch.records]
        assert batch["label"].tolist() == want


@pytest.mark.skipif(not IMAGE_TOOL.exists(), reason=f"{IMAGE_TOOL} is not built")
def test_random_crops_follow_from_seed_epoch_and_place(flowers):
    """The tool computes the box of one sample alone; Pillow cuts and resizes the same box."""
    dataset, paths, _ = flowers
    keys = feed.conf(dataset, seed=11, batch=8, fields=photo_fields([{"random_resized_crop": 96}, "hflip"]))
    with headrace.Loader(keys) as loader:
        loader.set_epoch(2)
        for batch, _ in zip(loader, range(3)):
            for i, (record, got) in enumerate(zip(batch.records, batch["image"])):
                r = subprocess.run([IMAGE_TOOL, paths[record], "--ops", "random_resized_crop size=96; hflip",
                                    "--seed", "11", "--epoch", "2", "--position", str(batch.step * 8 + i)],
                                   capture_output=True, check=True)
                assert got.tobytes() == r.stdout, (batch.step, i)
                plan = json.loads(r.stderr)
                x, y, w, h = plan["crop"]
                part = Image.fromarray(rgb(paths[record])[y:y + h, x:x + w])
                want = np.asarray(part.resize((96, h), Image.Resampling.BILINEAR)
                                  .resize((96, 96), Image.Resampling.BILINEAR)).astype(int)
                assert min(np.abs(got - v).max() for v in (want, want[:, ::-1])) <= 1


def test_every_dtype_and_layout_holds_the_same_pictures(flowers):
    dataset, _, _ = flowers
    ops = [{"resize": [48, 64]}]
    norm = [*ops, {"normalize": {"mean": MEAN, "std": STD}}]

    def first(ops, **output):
        for batch in epoch(feed.conf(dataset, batch=16, fields=photo_fields(ops, **output))):
            assert batch.layout("image") == output["layout"] and batch.dtype("image") == output["dtype"]
            return batch["image"].copy()

    u8 = first(ops, dtype="u8", layout="nhwc")
    assert np.array_equal(first(ops, dtype="u8", layout="nchw"), u8.transpose(0, 3, 1, 2))
    want = (u8 / 255.0 - MEAN) / STD
    for dtype, error in (("f32", 2e-6), ("f16", 2e-3), ("bf16", 2e-2)):
        for layout in ("nhwc", "nchw"):
            got = first(norm, dtype=dtype, layout=layout)
            if dtype == "bf16" and got.dtype == np.uint16:
                got = (got.astype(np.uint32) << 16).view(np.float32)
            if layout == "nchw":
                got = got.transpose(0, 2, 3, 1)
            assert np.abs(got.astype(np.float64) - want).max() <= error, (dtype, layout)


@pytest.mark.parametrize("ops", [[{"color_jitter": {"brightness": 0.5}}], [{"rotate": 20}, {"center_crop": 40}]])
def test_layouts_hold_the_same_pictures_after_ops_on_pixels(ops):
    def pictures(layout):
        output = {"dtype": "f32", "layout": layout}
        keys = feed.small(16, fields={"image": {"ops": [{"random_resized_crop": 64}, *ops], "output": output}})
        return np.concatenate([b["image"].copy() for b in epoch(keys)])

    assert (pictures("nchw") == pictures("nhwc").transpose(0, 3, 1, 2)).all()


def test_ragged_pictures_are_whole_files(flowers):
    dataset, paths, _ = flowers
    fields = {"image": {"output": {"ragged": True}}}
    for batch, _ in zip(epoch(feed.conf(dataset, batch=12, fields=fields)), range(4)):
        images = batch["image"]
        assert len(images) == 12 and images.shapes.shape == (12, 3)
        for record, got in zip(batch.records, images):
            assert np.array_equal(got, rgb(paths[record]))


@needs_data
def test_captions_and_pictures_of_pairs_stay_together():
    folder = SHARED / "data" / "pairs"
    dataset = feed.pack("image-caption", folder / "image-caption.jsonl", "--embed", "image", "--root", SHARED / "data")
    rows = [json.loads(line) for line in (folder / "image-caption.jsonl").read_text().splitlines()]
    fields = {"image": {"ops": [{"center_crop": 200}]}, "captions": None, "width": None, "license": None, "source": None}
    seen = 0
    for batch in epoch(feed.conf(dataset, batch=10, fields=fields)):
        captions, licenses, sources = batch["captions"], batch["license"], batch["source"]
        for i, record in enumerate(batch.records):
            row = rows[record]
            assert json.loads(captions[i].tobytes()) == row["captions"]
            assert batch["width"][i] == row["width"]
            assert licenses.strings()[i] == row["license"] and sources.strings()[i] == row["source"]
            whole = rgb(folder / row["image"])
            y, x = [round((n - 200) / 2) for n in whole.shape[:2]]
            assert np.array_equal(batch["image"][i], whole[y:y + 200, x:x + 200])
            seen += 1
    assert seen == 110


# ---- text, numbers, arrays ----


def test_text_numbers_and_words_are_those_of_the_jsonl(tmp_path):
    rows = [{"text": "naïve \U0001f40d " * (i % 7) + str(i), "n": i * 10**12 - 5, "x": i / 7, "flag": i % 3 == 0,
             "word": f"w{i % 5}", "tree": {"a": [i, None]}} for i in range(100)]
    (tmp_path / "d.jsonl").write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in rows))
    feed.run("pack", tmp_path / "d.jsonl", tmp_path / "d.hrd", "--type", "text=text")
    seen = set()
    for batch in epoch(feed.conf(tmp_path / "d.hrd", batch=9, last="keep")):
        for i, r in enumerate(batch.records):
            row = rows[r]
            assert batch["text"].strings()[i] == row["text"]
            assert batch["word"].strings()[i] == row["word"]
            assert json.loads(batch["tree"][i].tobytes()) == row["tree"]
            assert (batch["n"][i], batch["x"][i], bool(batch["flag"][i])) == (row["n"], row["x"], row["flag"])
            seen.add(int(r))
    assert seen == set(range(100))


def test_long_text_is_cut_at_a_character(tmp_path):
    texts = ["é" * n for n in range(40)]
    (tmp_path / "d.jsonl").write_text("\n".join(json.dumps({"text": t}) for t in texts))
    feed.run("pack", tmp_path / "d.jsonl", tmp_path / "d.hrd", "--type", "text=text")
    for batch in epoch(feed.conf(tmp_path / "d.hrd", batch=8, fields={"text": {"max_bytes": 21}})):
        for r, text in zip(batch.records, batch["text"].strings()):
            assert text == texts[r][:10]


def write_arrays(folder, arrays):
    folder.mkdir()
    for i, array in enumerate(arrays):
        np.save(folder / f"{i:04}.npy", array)


def test_arrays_of_one_shape_are_stacked(tmp_path):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(3, 5)).astype(np.float32) for _ in range(30)]
    write_arrays(tmp_path / "src", arrays)
    feed.run("pack", tmp_path / "src", tmp_path / "d.hrd")
    for batch in epoch(feed.conf(tmp_path / "d.hrd", batch=6)):
        assert batch["tensor"].shape == (6, 3, 5)
        for r, got in zip(batch.records, batch["tensor"]):
            assert np.array_equal(got, arrays[r])


@pytest.mark.parametrize("size", [100, 40_000])  # through the arena, and straight into the slot
def test_arrays_of_many_lengths_are_ragged(tmp_path, size):
    rng = np.random.default_rng(2)
    arrays = [rng.integers(0, 60_000, rng.integers(1, size), dtype=np.uint16) for _ in range(30)]
    write_arrays(tmp_path / "src", arrays)
    feed.run("pack", tmp_path / "src", tmp_path / "d.hrd")
    for dtype in ("u16", "i64"):
        output = {"output": {"dtype": dtype}} if dtype != "u16" else None
        for batch in epoch(feed.conf(tmp_path / "d.hrd", batch=5, fields={"tensor": output})):
            assert batch.dtype("tensor") == dtype
            for r, got in zip(batch.records, batch["tensor"]):
                assert np.array_equal(got, arrays[r])


# ---- sound and moving pictures ----


@needs_data
def test_sound_is_that_of_the_file():
    folder = SHARED / "data" / "audio" / "digits-wav8k"
    dataset = feed.pack("digits", folder)
    rows = files_of(dataset)

    def samples(record):
        with wave.open(str(folder / rows[record]["key"])) as w:
            return np.frombuffer(w.readframes(w.getnframes()), "<i2") / np.float32(32768)

    with_clip = {"audio": {"clip": {"seconds": 0.5, "start": "begin"}}}
    for batch in epoch(feed.conf(dataset, batch=30, fields=with_clip)):
        assert batch["audio"].shape == (30, 4000)
        for r, got, n in zip(batch.records, batch["audio"], batch["audio.lengths"]):
            want = samples(r)[:4000]
            assert n == len(want)
            assert np.array_equal(got[:n], want) and not got[n:].any()
    for batch in epoch(feed.conf(dataset, batch=50, fields={"audio": {"output": {"ragged": True}}})):
        for r, got in zip(batch.records, batch["audio"]):
            assert np.array_equal(got.ravel(), samples(r))


@needs_data
def test_moving_pictures_are_those_of_ffmpeg():
    folder = SHARED / "data" / "video" / "asl-gestures"
    dataset = feed.pack("asl", folder)
    rows = files_of(dataset)
    fields = {"video": {"clip": {"frames": 4, "stride": 5, "start": "begin"}, "output": {"ragged": True}}}
    batch = next(iter(epoch(feed.conf(dataset, batch=2, fields=fields))))
    for r, got in zip(batch.records, batch["video"]):
        r = subprocess.run(["ffmpeg", "-v", "error", "-threads", "1", "-i", folder / rows[r]["key"], "-frames:v", "16",
                            "-fps_mode", "passthrough", "-sws_flags",
                            "bicubic+accurate_rnd+full_chroma_int+bitexact", "-pix_fmt", "rgb24", "-f", "rawvideo", "-"],
                           capture_output=True, check=True)
        whole = np.frombuffer(r.stdout, np.uint8).reshape(-1, 480, 640, 3)
        assert np.array_equal(got, whole[[0, 5, 10, 15]])


def test_every_kind_of_field_in_one_batch():
    dataset = feed.synth("mixed", 12)
    fields = {"image": {"ops": [{"random_resized_crop": 64}]},
              "audio": {"clip": {"seconds": 0.5}},
              "video": {"clip": {"frames": 3}, "ops": [{"resize": [32, 32]}], "output": {"layout": "ncthw"}},
              "caption": None, "label": None}
    with headrace.Loader(feed.conf(dataset, batch=4, fields=fields)) as loader:
        rows = feed.take(loader, 6)
    assert len(set(rows)) == 6
    with headrace.Loader(feed.conf(dataset, batch=4, fields=fields, workers=1, reader="preadv")) as loader:
        assert feed.take(loader, 6) == rows
        batch = next(iter(loader))
        assert batch["video"].shape == (4, 3, 3, 32, 32) and batch["audio"].shape == (4, 8000)


# ---- the slot ----


def address(array):
    return array.__array_interface__["data"][0]


def test_arrays_lie_in_the_shared_mapping_and_nowhere_else():
    with headrace.Loader(feed.small()) as loader:
        info = _lib.ClientInfo()
        _lib.client_info(loader._handle, ctypes.byref(info))
        maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        (place,) = [m for m in maps if m[0].startswith(f"{info.data:x}-")]
        assert "memfd" in place[5] and place[1] == "rw-s"
        for batch in loader:
            x = batch["image"]
            assert x.flags.writeable and x.flags.c_contiguous
            for array in (x, batch["label"], batch.records):
                assert info.data <= address(array) and address(array) + array.nbytes <= info.data + info.data_bytes
            assert address(x) % 64 == 0


def test_writes_do_not_reach_later_batches():
    keys = feed.small(slots=2)
    with headrace.Loader(keys) as loader:
        want = feed.take(loader, 24)
    with headrace.Loader(keys) as loader:
        rows = []
        for _ in range(3):
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                for name in batch:
                    batch[name][:] = 77
                batch.records[:] = 5
                batch.valid[:] = False
        assert rows == want


def test_a_kept_array_keeps_its_slot_and_its_values():
    with headrace.Loader(feed.small(slots=3)) as loader:
        batches = iter(loader)
        kept = next(batches)["image"][3]
        before = kept.copy()
        for _ in range(2):
            for batch in loader:
                assert not np.shares_memory(batch["image"], kept)
        batch = batches = None
        assert np.array_equal(kept, before)
        assert feed.eventually(lambda: loader.stats()["leased"] == 1)  # counted when next needed
        kept = None
        gc.collect()
        assert feed.eventually(lambda: loader.stats()["leased"] == 0)


def test_all_slots_held_is_an_error_that_names_their_number():
    with headrace.Loader(feed.small(slots=3)) as loader:
        batches = iter(loader)
        held = [next(batches) for _ in range(3)]
        for _ in range(2):
            with pytest.raises(headrace.AllLeasedError, match=r"all 3 slots .*slots") as e:
                next(batches)
            assert e.value.code == -22
        held[1].release()  # out of order
        with pytest.raises(headrace.ReleasedError, match="release"):
            held[1]["image"]
        for use in (lambda b: b.records, lambda b: b.valid, lambda b: b.names()):
            with pytest.raises(headrace.ReleasedError):
                use(held[1])
        assert next(batches).step == 3
        values = feed.digest(held[0])
        held.pop()
        assert next(batches).step == 4
        assert feed.digest(held[0]) == values


def test_any_order_of_releases_gives_the_same_batches():
    keys = feed.small(slots=5)
    with headrace.Loader(keys) as loader:
        want = feed.take(loader, 80)
    rng = np.random.default_rng(3)
    with headrace.Loader(keys) as loader:
        held, rows = [], []
        while len(rows) < 80:
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                held.append(batch)
                batch = None
                while len(held) > rng.integers(0, 5):
                    held.pop(rng.integers(len(held)))
    assert rows[:80] == want


def test_memory_of_a_closed_loader_stays_readable():
    with headrace.Loader(feed.small()) as loader:
        batch = next(iter(loader))
        x, before = batch["image"], feed.digest(batch)
    assert feed.digest(batch) == before and x.any()
    assert feed.children() == []
