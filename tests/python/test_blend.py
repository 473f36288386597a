"""Mixup and cutmix: what comes out is what numpy makes of the batches without them, with the draws of docs/ops.md replayed
by a second Philox; and it is the same at any number of ranks, workers and restarts."""
import functools
import json
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402
from blend_oracle import CLASSES, SEED, SIZE, STREAM, beta, decide, expect, mixed, row  # noqa: E402
from philox import Draws  # noqa: E402

OPS = [{"resize": 48}, {"random_crop": SIZE}, "hflip"]
NORMALIZE = {"normalize": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}
F32 = {"dtype": "f32", "layout": "nchw"}
BOTH = {"mixup": 0.4, "cutmix": 1}


def pipeline(blend=None, output=None, records=96, batch=16, ops=None, dataset=None, **keys):
    output = output or F32
    ops = ops or OPS + [NORMALIZE] * (output["dtype"] != "u8")
    fields = {"image": {"ops": ops, "output": output}, "label": None}
    dataset = dataset or feed.synth("images", records, "--width", 64, "--height", 56)
    if blend is not None:
        keys["blend"] = {"images": "image", "labels": "label", "num_classes": CLASSES, **blend}
    return feed.conf(dataset, seed=SEED, batch=batch, fields=fields, **keys)


class Batch:
    """A copy of what matters of a batch."""

    def __init__(self, b):
        self.epoch, self.step, self.valid, self.records = b.epoch, b.step, b.valid.copy(), b.records.copy()
        self.images, self.labels = wide(b, "image"), b["label"].copy()


def wide(b, name):
    array = b[name]
    if b.dtype(name) == "bf16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.copy()


def take(keys, count, **options):
    with headrace.Loader(keys, **options) as loader:
        out = []
        while len(out) < count:
            for b in loader:
                out.append(Batch(b))
                if len(out) == count:
                    break
        return out


def check(blend, output=None, batches=4, size=16, wrap=None, **keys):
    output = output or F32
    plain = take(pipeline(None, output, batch=size, **keys), batches)
    got = take(pipeline(blend, output, batch=size, **keys), batches)
    changed = 0
    for a, b in zip(plain, got):
        assert (a.epoch, a.step) == (b.epoch, b.step) and np.array_equal(a.records, b.records)
        images, labels = expect(a, blend, output, size, wrap)
        assert b.labels.dtype == np.float32 and b.labels.shape == labels.shape
        assert np.array_equal(b.labels, labels), (a.step, np.argwhere(b.labels != labels)[:4])
        assert np.array_equal(b.images, images), (a.step, np.argwhere(b.images != images)[:4])
        changed += (images != a.images).any(axis=(1, 2, 3)).sum()
    return changed


@pytest.mark.parametrize("mode", ["pair", "batch", "elem", "roll"])
@pytest.mark.parametrize("dtype,layout", [("f32", "nchw"), ("f16", "nchw"), ("bf16", "nhwc"), ("u8", "nhwc")])
def test_pictures_and_labels_are_mixed_as_the_page_says(mode, dtype, layout):
    changed = check({**BOTH, "mode": mode, "smoothing": 0.1}, {"dtype": dtype, "layout": layout}, batches=6)
    assert changed > 40 or mode in ("batch", "roll")


def test_chances_and_kinds_are_as_asked():
    assert check({"mixup": 1, "p": 0}) == 0
    assert check({"mixup": 0.2, "p": 0.5}, batches=6) > 10
    assert check({"cutmix": 0.5}, batches=6) > 30
    assert check({**BOTH, "switch": 0.9, "p": 0.8, "mode": "elem"}, batches=6) > 30


def test_every_epoch_mixes_anew():
    """Neighbours and draws of the second and third epoch."""
    assert check(BOTH, batches=10, records=64) > 60
    assert check({**BOTH, "mode": "batch"}, batches=10, records=64) > 0


def test_class_names_give_their_number():
    """A dataset of class folders knows how many classes there are."""
    folder = feed.SCRATCH / "blend-folders"
    feed.run("synth", folder, "--kind", "images", "-n", 40, "-q", "--as", "folder")
    dataset = feed.pack("blend-folders-packed", folder)
    classes = len([p for p in folder.iterdir() if p.is_dir()])
    keys = pipeline({"mixup": 1}, dataset=dataset, batch=8)
    del keys["blend"]["num_classes"]
    batch = take(keys, 1)[0]
    assert batch.labels.shape == (8, classes)
    assert np.abs(batch.labels.sum(axis=1) - 1).max() < 1e-6


def test_the_file_that_init_prints_has_it():
    dataset = feed.synth("images", 96, "--width", 64, "--height", 56)
    text = feed.run("init", dataset).stdout
    path = feed.SCRATCH / "init.yaml"
    path.write_text(text.replace("#blend:", "blend:"))
    assert "blend images=image labels=label num_classes=8" in feed.run("check", path).stdout


def test_samples_of_several_datasets_are_mixed_with_one_another():
    sources = [{"path": str(feed.synth("images", n, "--width", 64, "--height", 56)), "weight": w}
               for n, w in ((96, 3), (64, 1))]
    plain, got = (take({**pipeline(blend), "dataset": sources}, 5) for blend in (None, BOTH))
    for a, b in zip(plain, got):
        images, labels = expect(a, BOTH, F32, 16)
        assert np.array_equal(b.images, images) and np.array_equal(b.labels, labels)


# ---- the same everywhere ----


def rank_parts(address, world, count):
    """Digest-worthy bytes of the first global batches, of all ranks together."""
    parts = []
    for rank in range(world):
        with headrace.Loader(address, rank=rank, world=world) as loader:
            parts.append([Batch(b) for b, _ in zip(loader, range(count))])
    return [(np.concatenate([b.images for b in row]), np.concatenate([b.labels for b in row])) for row in zip(*parts)]


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x[0], y[0]) and np.array_equal(x[1], y[1]) for x, y in zip(a, b))


@pytest.mark.parametrize("mode", ["pair", "batch", "elem"])
def test_any_number_of_ranks_and_workers_gives_the_same(mode):
    blend = {**BOTH, "mode": mode}
    one = [(b.images, b.labels) for b in take(pipeline(blend, workers=1), 6)]
    for workers, worlds in ((1, [2]), (4, [1, 2, 4, 8])):
        with feed.Sidecar(pipeline(blend, workers=workers)) as sidecar:
            for world in worlds:
                assert same(rank_parts(sidecar.address, world, 6), one), (workers, world)


def test_roll_is_torchvision_s_in_each_rank():
    blend, world = {**BOTH, "mode": "roll"}, 4
    plain = take(pipeline(None), 6)
    with feed.Sidecar(pipeline(blend)) as sidecar:
        got = rank_parts(sidecar.address, world, 6)
    for a, (images, labels) in zip(plain, got):
        draw = decide(blend, a.epoch, a.step * 16)
        for share in range(0, 16, 16 // world):
            for i in range(share, share + 4):
                partner = share + (i - share - 1) % 4
                assert np.array_equal(images[i], mixed(a.images[i], a.images[partner], draw, "f32", True))
                assert np.array_equal(labels[i], row(a.labels[i], a.labels[partner], draw[1], 0))


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
def test_roll_is_what_torchvision_itself_makes(name, monkeypatch):
    """Its MixUp and CutMix with our draws: the same but for the last bits of single precision."""
    try:
        import torch
        from torchvision.transforms import v2
    except (ImportError, RuntimeError) as missing:
        pytest.skip(f"torchvision: {missing}")
    blend = {name: 0.4, "mode": "roll"}
    for plain, got in zip(take(pipeline(None), 6), take(pipeline(blend), 6)):
        draws = Draws(SEED, plain.epoch, plain.step * 16, STREAM)
        draws.uniform()
        op = {"mixup": v2.MixUp, "cutmix": v2.CutMix}[name](alpha=0.4, num_classes=CLASSES)
        weight = beta(draws, 0.4)
        monkeypatch.setattr(op, "_dist", torch.distributions.Normal(torch.tensor(weight, dtype=torch.float64), 1e-30))
        middle = [draws.below(SIZE), draws.below(SIZE)]  # y, x; torchvision asks for x first
        monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([middle.pop()]))
        images, labels = op(torch.from_numpy(plain.images), torch.from_numpy(plain.labels))
        monkeypatch.undo()
        assert np.abs(images.numpy() - got.images).max() < 1e-6
        assert np.abs(labels.numpy() - got.labels).max() < 1e-6


def test_a_run_goes_on_where_it_was_stopped():
    keys = pipeline({**BOTH, "mode": "elem"})
    whole = take(keys, 9)
    with headrace.Loader(keys) as loader:
        for _ in zip(range(4), loader):
            pass
        state = loader.state_dict()
    rest = take(keys, 5, state=state)
    assert [(b.epoch, b.step) for b in rest] == [(b.epoch, b.step) for b in whole[4:]]
    assert same([(b.images, b.labels) for b in rest], [(b.images, b.labels) for b in whole[4:]])


# ---- ends of epochs, bad records, absent values ----


def test_padding_and_its_partner_stay_as_they_are():
    """95 records: the last one's partner is padding."""
    assert check(BOTH, batches=12, records=95, last="pad") > 0
    assert check({**BOTH, "mode": "roll"}, batches=12, records=95, last="pad") > 0


def test_a_wrapped_batch_draws_by_the_places_of_its_samples():
    for mode in ("pair", "batch", "elem"):
        check({**BOTH, "mode": mode}, batches=14, records=45, last="wrap", wrap=45)


def test_a_short_batch_is_mixed_by_roll_alone():
    check(BOTH, batches=12, records=90, last="keep")
    check({**BOTH, "mode": "roll"}, batches=12, records=90, last="keep")
    with feed.Sidecar(pipeline(BOTH, records=90, last="keep")) as sidecar:
        one = rank_parts(sidecar.address, 1, 6)
        assert len(one[-1][0]) == 10
        assert same(rank_parts(sidecar.address, 4, 6), one)


@pytest.fixture(scope="module")
def spoiled():
    """Pictures whose files are cut: they fail in the decoder."""
    folder = feed.SCRATCH / "blend-spoiled"
    feed.run("synth", folder, "--kind", "images", "-n", 48, "-q", "--as", "folder", "--width", 64, "--height", 56)
    for path in sorted(folder.rglob("*.jpg"))[5::11]:
        path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
    return feed.pack("blend-spoiled-packed", folder)


@pytest.mark.parametrize("mode", ["pair", "elem", "roll"])
def test_a_masked_record_and_its_partner_stay_as_they_are(spoiled, mode):
    keys = {"dataset": spoiled, "bad_budget": 1, "bad_records": "mask", "size": 8}
    plain = take(pipeline(None, batch=8, **{k: v for k, v in keys.items() if k != "size"}), 6)
    assert sum((b.valid == 0).sum() for b in plain) >= 3
    assert check({**BOTH, "mode": mode}, batches=12, **keys) > 0


@pytest.mark.parametrize("mode", ["pair", "elem", "roll"])
def test_a_stand_in_is_mixed_like_the_record(spoiled, mode):
    keys = {"dataset": spoiled, "bad_budget": 1, "size": 8}
    assert check({**BOTH, "mode": mode}, batches=12, **keys) > 0


@functools.lru_cache(maxsize=None)
def listed(name, records, **lacking):
    """Pictures with numbers for labels and no names for them; every n-th lacks a field."""
    folder = feed.SCRATCH / name
    feed.run("synth", folder, "--kind", "images", "-n", records, "-q", "--as", "folder", "--width", 64, "--height", 56)
    lines = []
    for i, path in enumerate(sorted(folder.rglob("*.jpg"))):
        line = {"image": str(path.relative_to(folder)), "label": i}
        for field, every in lacking.items():
            if i % every == 3:
                del line[field]
        lines.append(json.dumps(line))
    (folder / "list.jsonl").write_text("\n".join(lines) + "\n")
    return feed.pack(name + "-packed", folder / "list.jsonl", "--embed", "image", "--root", folder)


def test_what_lacks_a_label_or_a_picture_is_not_mixed():
    dataset = listed("blend-absent", 24, label=7, image=9)
    plain = take_with_presence(pipeline(None, dataset=dataset, batch=8), 3)
    got = take_with_presence(pipeline(BOTH, dataset=dataset, batch=8), 3)
    alone = 0
    for (a, images, labels), (b, _, _) in zip(plain, got):
        for i in range(8):
            whole = images[i] and labels[i] and images[i ^ 1] and labels[i ^ 1]
            draw = decide(BOTH, a.epoch, a.step * 8 + i // 2 * 2) if whole else (None, 1.0, None)
            assert np.array_equal(b.images[i], mixed(a.images[i], a.images[i ^ 1], draw, "f32", True))
            want = row(a.labels[i], a.labels[i ^ 1 if whole else i], draw[1], 0) if labels[i] else np.zeros(CLASSES)
            assert np.array_equal(b.labels[i], want)
            alone += not whole
    assert 4 < alone < 20


def take_with_presence(keys, count):
    with headrace.Loader(keys) as loader:
        return [(Batch(b), b["image.present"].copy(), b["label.present"].copy()) for b, _ in zip(loader, range(count))]


def test_a_class_out_of_range_is_a_bad_record():
    small = pipeline({"mixup": 1, "num_classes": 2}, bad_records="mask", bad_budget=1, bad_consecutive=10**6)
    plain = take(pipeline(None), 3)
    for a, b in zip(plain, take(small, 3)):
        assert np.array_equal(b.valid != 0, a.labels < 2)
        assert not b.labels[b.valid == 0].any()
    with pytest.raises(headrace.Error) as e:
        take(pipeline({"mixup": 1, "num_classes": 2}, bad_records="fail"), 3)
    assert "num_classes" in str(e.value) and "label" in str(e.value)


# ---- clips ----


def test_clips_are_mixed_frame_by_frame():
    dataset = feed.synth("video", 8, "--width", 64, "--height", 48, "--seconds", 1)
    for layout, axes in (("nthwc", (0, 1, 2, 3)), ("ntchw", (0, 2, 3, 1)), ("ncthw", (1, 2, 3, 0))):
        fields = {"video": {"clip": {"frames": 3, "stride": 2}, "ops": [{"resize": 44}, {"center_crop": SIZE}],
                            "output": {"layout": layout}}, "label": None}
        keys = feed.conf(dataset, seed=SEED, batch=8, fields=fields)
        blend = {"images": "video", "labels": "label", "num_classes": CLASSES, "cutmix": 1}
        with headrace.Loader(keys) as loader:
            plain = next(iter(loader))["video"].copy()
        with headrace.Loader({**keys, "blend": blend}) as loader:
            got = next(iter(loader))["video"].copy()
        for i in range(8):
            draw = decide(blend, 0, i // 2 * 2)
            for a, b, c in zip(*(x[j].transpose(axes) for x, j in ((plain, i), (plain, i ^ 1), (got, i)))):
                assert np.array_equal(c, mixed(a, b, draw, "u8", False)), (layout, i)


def test_views_of_a_picture_are_mixed_alike():
    """One box for all views; arrays of other sizes are for mixup alone."""
    views = {"image": {"ops": [{"random_resized_crop": SIZE}], "views": 2, "output": {"layout": "nchw"}}, "label": None}
    keys = feed.conf(feed.synth("images", 16, "--width", 64, "--height", 56), seed=SEED, batch=8, fields=views)
    blend = {"images": "image", "labels": "label", "num_classes": CLASSES, "cutmix": 1}
    with headrace.Loader(keys) as loader:
        plain = next(iter(loader))["image"].copy()
    with headrace.Loader({**keys, "blend": blend}) as loader:
        got = next(iter(loader))["image"].copy()
    assert plain.shape == (8, 2, 3, SIZE, SIZE)
    for i in range(8):
        draw = decide(blend, 0, i // 2 * 2)
        for view in range(2):
            assert np.array_equal(got[i, view], mixed(plain[i, view], plain[i ^ 1, view], draw, "u8", True))
    views["image"] = {"views": {"big": {"ops": [{"random_resized_crop": 32}]},
                                "small": {"count": 2, "ops": [{"random_resized_crop": 16}]}}}
    with pytest.raises(headrace.ConfigError) as e:
        headrace.Loader({**keys, "fields": views, "blend": blend})
    assert "one size" in str(e.value)
    del blend["cutmix"]
    with headrace.Loader({**keys, "fields": views, "blend": {**blend, "mixup": 0.5}}) as loader:
        batch = next(iter(loader))
        assert batch["image.big"].shape[-3:] == (32, 32, 3) and batch["image.small"].shape == (8, 2, 16, 16, 3)


# ---- what cannot be ----


def refused(text, *words, code=2):
    path = feed.SCRATCH / "blend.yaml"
    path.write_text(text)
    r = feed.run("check", path, code=code)
    for word in words:
        assert word in r.stderr, r.stderr
    return r


def yaml(blend, image="{ops: [{resize: [32, 32]}]}", more="", batch=8):
    return (f"dataset: {feed.synth('images', 64, '--width', 96, '--height', 80)}\nbatch: {batch}\n"
            f"fields:\n  image: {image}\n  label:\n{more}blend: {{{blend}}}\n")


GOOD = "images: image, labels: label, num_classes: 9"


def test_mistakes_are_named_with_their_place():
    refused(yaml(GOOD), ":6:8:", "neither mixup nor cutmix", "mixup: 0.2")
    refused(yaml("images: image, mixup: 1"), ":6:8:", "needs 'labels'")
    refused(yaml("labels: label, mixup: 1"), "needs 'images'")
    nameless = yaml("images: image, labels: label, mixup: 1").splitlines()
    nameless[0] = f"dataset: {listed('blend-nameless', 8)}"
    refused("\n".join(nameless), ":6:8:", "needs 'num_classes'", "num_classes: 1000")
    refused(yaml("images: imag, labels: label, num_classes: 9, mixup: 1"), ":6:17:", "'imag'", "did you mean 'image'")
    refused(yaml("images: [image, image], labels: label, num_classes: 9, mixup: 1"), ":6:25:", "twice")
    refused(yaml("images: label, labels: label, num_classes: 9, mixup: 1"), ":6:17:", "image and video fields", "i64")
    refused(yaml("images: image, labels: image, num_classes: 9, mixup: 1"), ":6:32:", "whole numbers", "i64")
    refused(yaml(GOOD + ", mixup: 0"), ":6:62:", "'alpha' of 'mixup' is 0", "0.001")
    refused(yaml(GOOD + ", mixup: {alpa: 1}"), "alpa", "did you mean 'alpha'")
    refused(yaml(GOOD + ", mixup: 1, p: 2"), "'p' of 'blend' is 2")
    refused(yaml(GOOD + ", mixup: 1, mode: pairs"), "pairs", "pair, batch, elem, roll")
    refused(yaml(GOOD + ", mixup: 1, switch: 0.5"), "'switch' chooses")
    refused(yaml(GOOD + ", mixup: 1, moed: pair"), "did you mean 'mode'")
    refused(yaml(GOOD + ", mixup: 1", image="{ops: [{resize: 32}], output: {ragged: true}}"), ":6:17:", "different sizes",
            "crop")
    refused(yaml(GOOD + ", mixup: 1").replace("  label:", "  label: {output: {dtype: i32}}"), "f32", "i32", "'output' out")
    refused(yaml(GOOD).replace("blend:", "mixup:"), "did you mean 'blend'")
    refused(yaml(GOOD).replace("blend: {", "blend: ["). replace("9}", "9]"), "must be a mapping")
    refused(yaml(GOOD + ", mixup: 1", batch=9), "shares of 9", "multiple of 2", "mode: roll")
    refused(yaml(GOOD + ", mixup: 1, mode: roll", batch=9), code=0)


def test_a_share_that_parts_two_is_refused():
    keys = pipeline(BOTH)
    with feed.Sidecar(keys) as sidecar:
        with pytest.raises(headrace.ConfigError) as e:
            headrace.Loader(sidecar.address, rank=0, world=16)
        assert "multiple of 32" in str(e.value) and "roll" in str(e.value)


def test_check_shows_what_is_mixed():
    path = feed.SCRATCH / "shown.yaml"
    path.write_text(yaml(GOOD + ", cutmix:, mixup: 0.2"))
    told = json.loads(feed.run("check", path, "--json").stdout)
    assert told["blend"].startswith("blend images=image labels=label num_classes=9 smoothing=0 mode=pair p=1 mixup=0.2")
    assert told["blend"].endswith("cutmix=1 switch=0.5")
    label = next(f for f in told["fields"] if f["name"] == "label")
    assert label["dtype"] == "f32" and label["shape"] == [8, 9]
    assert "mode=pair p=1 mixup=0.2 cutmix=1 switch=0.5" in feed.run("check", path).stdout


def test_a_changed_blend_is_a_changed_plan():
    def state_of(keys):
        with headrace.Loader(keys) as loader:
            next(iter(loader))
            return loader.state_dict()

    plain, mixing = pipeline(None), pipeline(BOTH)
    for before, after, words in ((mixing, pipeline({**BOTH, "mixup": 0.5}), "'blend'"), (plain, mixing, "'blend'"),
                                 (mixing, plain, "'blend'")):
        state = state_of(before)
        with pytest.raises(headrace.StateError) as e:
            take(after, 1, state=state)
        assert words in str(e.value), str(e.value)
        assert take(after, 1, state=state, force_state=True)[0].step == 1
