"""Mixtures and filters through the real sidecar: what is kept, what the order says, what is delivered."""
import json
import math
import random
import re
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

sys.path.insert(0, str(feed.ROOT / "tests" / "golden"))
import order_oracle  # noqa: E402

RNG = random.Random(11)
LANGS = ["en", "de", "fr", "", "en-GB"]
# Of both sources: text, n and lang; score and ok only of the first, note only of the second.
ROWS = {
    "web": [{"text": "w%d" % i + "x" * (i % 40), "n": RNG.choice([i, -i, i * 10**12]), "lang": RNG.choice(LANGS),
             "score": RNG.choice([i / 7, -1.5, 2.0**53]), "ok": RNG.random() < 0.5} for i in range(300)],
    "books": [{"text": "b%d" % i, "n": i, "lang": RNG.choice(LANGS), "note": f"note {i}"} for i in range(40)],
}
for _row in ROWS["web"][::9]:
    del _row["lang"]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mix")
    out = {}
    for name, rows in ROWS.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"id": f"{name}-{i}", **row}) + "\n" for i, row in enumerate(rows)))
        out[name] = str(folder / f"{name}.hrd")
        feed.run("pack", "-q", path, out[name])
    return out


def kept_by(keys):
    """The records in an epoch of one filtered dataset, by `headrace order`."""
    r = feed.run("order", "-", "--count", 1000, input=json.dumps({**keys, "batch": 16, "last": "keep", "epochs": 1}),
                 code=None)
    if r.returncode:
        return r.stderr
    return sorted(int(x.split(":")[1]) for line in r.stdout.splitlines() for x in json.loads(line)["records"])


# ---- filters ----


class Absent(Exception):
    pass


def term(rng, row_names):
    """(text, function of a row): one test."""
    def value(row, name):
        if name not in row:
            raise Absent
        return row[name]

    def safe(test):
        def run(row):
            try:
                return test(row)
            except Absent:
                return False
        return run

    kind = rng.randrange(7)
    op = rng.choice(["==", "!=", "<", "<=", ">", ">="])
    compare = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
               "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}[op]
    if kind == 0:
        name, number = rng.choice(["n", "score"]), rng.choice([0, 7, -20, 150, 2**53, 12.5, -1.5, 1e13, 9007199254740993])
        text = repr(number)
        if rng.random() < 0.3:
            return f"{text} {op} {name}", safe(lambda r: compare(number, value(r, name)))
        return f"{name} {op} {text}", safe(lambda r: compare(value(r, name), number))
    if kind == 1:
        lang = rng.choice(LANGS + ["zz"])
        return f'lang {op} "{lang}"', safe(lambda r: compare(value(r, "lang").encode(), lang.encode()))
    if kind == 2:
        langs = rng.sample(LANGS, rng.randint(1, 4))
        word = rng.choice(["in", "not in"])
        inside = safe(lambda r: value(r, "lang") in langs)
        return (f"lang {word} [" + ", ".join(f"'{x}'" for x in langs) + "]",
                inside if word == "in" else lambda r: not inside(r))
    if kind == 3:
        pattern = rng.choice(["^e", "n$", "^..$", "[a-e]", "^(en|fr)$", "^$", "x{3}"])
        return f'lang =~ "{pattern}"', safe(lambda r: re.search(pattern, value(r, "lang")) is not None)
    if kind == 4:
        name = rng.choice(["lang", "text", "score"])
        return f"has({name})", lambda r: name in r
    if kind == 5:
        return "ok", safe(lambda r: value(r, "ok"))
    size = rng.randint(1, 45)
    name = rng.choice(["text.bytes", "text.items"])
    return f"{name} {op} {size}", safe(lambda r: compare(len(value(r, "text")), size))


def expression(rng, depth=0):
    if depth == 3 or rng.random() < 0.35:
        return term(rng, None)
    kind = rng.choice(["and", "or", "not"])
    if kind == "not":
        text, test = expression(rng, depth + 1)
        return f"not ({text})", lambda r: not test(r)
    parts = [expression(rng, depth + 1) for _ in range(rng.randint(2, 3))]
    every = all if kind == "and" else any
    return (f" {kind} ".join(f"({text})" for text, _ in parts), lambda r: every(test(r) for _, test in parts))


def test_random_filters_keep_what_python_keeps(datasets):
    rng, compared = random.Random(3), 0
    for _ in range(120):
        text, test = expression(rng)
        want = [i for i, row in enumerate(ROWS["web"]) if test(row)]
        got = kept_by({"dataset": datasets["web"], "where": text})
        if not want:
            assert "keeps none of the 300 records" in got, text
            continue
        assert got == want, text
        compared += 1
    assert compared > 60


def test_key_is_a_column(datasets):
    # Keys are FILE:LINE.
    assert kept_by({"dataset": datasets["web"], "where": "key == 'web.jsonl:18' or key =~ ':29[0-9]$'"}) == [
        17, *range(289, 299)]


def test_facts_of_media_are_what_inspect_shows():
    dataset = feed.synth("mixed", 60)
    rows = [json.loads(line)["fields"] for line in
            feed.run("inspect", dataset, "--records", "0:60", "--json").stdout.splitlines()]
    cases = {
        "image.width >= 400 and image.height < 400": lambda f: f["image"]["width"] >= 400 > f["image"]["height"],
        "audio.duration > 5.5 and audio.channels == 1": lambda f: f["audio"]["duration_s"] > 5.5
        and f["audio"]["channels"] == 1,
        "audio.samples < 100000 or video.frames > 100": lambda f: f["audio"]["samples"] < 100000
        or f["video"]["frames"] > 100,
        "video.duration < 3 and audio.sample_rate == 16000": lambda f: f["video"]["duration_s"] < 3
        and f["audio"]["sample_rate"] == 16000,
        "image.bytes > 40000": lambda f: f["image"]["bytes"] > 40000,
        "items > 70 and samples > 5": lambda f: f["caption"]["items"] > 70 and f["audio"]["samples"] > 5,
        "label in [0, 3]": lambda f: f["label"] in (0, 3),
    }
    for where, test in cases.items():
        want = [i for i, fields in enumerate(rows) if test(fields)]
        assert 0 < len(want) < 60, where
        assert kept_by({"dataset": str(dataset), "where": where}) == want, where


def test_filter_and_order_are_the_specification(datasets):
    kept = [i for i, row in enumerate(ROWS["web"]) if row.get("lang") == "en"]
    plan = order_oracle.Filtered("full", "keep", 5, kept, 16, 0, 0)
    r = feed.run("order", "-", "--epoch", 3, "--count", plan.steps(3), input=json.dumps(
        {"dataset": datasets["web"], "where": "lang == 'en'", "batch": 16, "last": "keep", "seed": 5}))
    got = [x for line in r.stdout.splitlines() for x in json.loads(line)["records"]]
    assert got == [f"0:{plan.at(3, i)[1]}" for i in range(len(kept))]


@pytest.mark.parametrize("where, place, words", [
    ("lnag == 'en'", 9, "did you mean 'lang'"),
    ("n > 3 and text == 'x'", 19, "text.bytes"),
    ("n > 3 and", 18, "ends where"),
    ("text.width > 3", 9, "no width"),
])
def test_mistakes_are_placed_in_the_file(datasets, tmp_path, where, place, words):
    path = tmp_path / "p.yaml"
    path.write_text(f"dataset: {datasets['web']}\nwhere: \"{where}\"\n")
    r = feed.run("check", path, code=2)
    assert f"p.yaml:2:{place}: " in r.stderr and words in r.stderr


@pytest.mark.parametrize("where, place, words", [
    ("only_b > 3 and zzz > 1", 24, "'zzz' is no field"),  # not the one that the second dataset has
    ("only_a > 3 or only_b > 3 or only_c > 3", 37, "'only_c' is no field"),
    ("only_b == 'x'", 19, "a whole number is compared with text"),
])
def test_a_mistake_about_several_datasets_is_placed_too(tmp_path, where, place, words):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"only_{name}": {i}}}\n' for i in range(9)))
        feed.run("pack", "-q", tmp_path / f"{name}.jsonl", tmp_path / f"{name}.hrd")
    path = tmp_path / "p.yaml"
    path.write_text(f"dataset: [a.hrd, b.hrd]\nwhere: \"{where}\"\n")
    r = feed.run("check", path, code=2)
    assert f"p.yaml:2:{place}: " in r.stderr
    assert words in r.stderr


def test_a_name_longer_than_any_field_s_is_no_field(tmp_path):
    name = "q" * 63
    (tmp_path / "a.jsonl").write_text("".join(f'{{"{name}": "{"word " * 20}{i}"}}\n' for i in range(9)))
    feed.run("pack", "-q", tmp_path / "a.jsonl", tmp_path / "a.hrd")
    for where, code in ((f"{name}.bytes > 0", 0), (f"{name}q.bytes > 0", 2), (f"{name}.q.bytes > 0", 2)):
        r = feed.run("order", "-", code=code, input=json.dumps(
            {"dataset": str(tmp_path / "a.hrd"), "batch": 4, "where": where}))
        assert code == 0 or "is no field" in r.stderr


def test_classes_are_known_by_name():
    dataset = str(feed.synth("images", 60, "--width", 32, "--height", 32))
    names = json.loads(feed.run("inspect", dataset, "--json").stdout)["classes"]
    with headrace.Loader({"dataset": dataset, "fields": {"label": None}, "batch": 60, "order": "none"}) as loader:
        labels = next(iter(loader))["label"].tolist()

    def kept(where):
        return kept_by({"dataset": dataset, "where": where})

    ring, square = names.index("ring"), names.index("square")
    assert kept('label == "ring"') == kept(f"label == {ring}") == [r for r, n in enumerate(labels) if n == ring]
    assert kept('"ring" != label') == [r for r, n in enumerate(labels) if n != ring]
    assert kept("label in ['ring', 'square', 0]") == [r for r, n in enumerate(labels) if n in (ring, square, 0)]
    assert kept("label not in ['ring']") == kept("label != 'ring'")
    assert "'label' has no class 'rung' (did you mean 'ring'?)" in kept("label == 'rung'")
    assert "no order" in kept("label < 'ring'")
    assert "a whole number is compared with text" in kept("image.width == 'ring'")
    # Each dataset of a mixture has names of its own.
    text = str(feed.synth("text", 10))
    r = feed.run("check", "-", input=json.dumps(
        {"dataset": [dataset, text], "batch": 4, "where": "label == 'ring' or has(text)",
         "fields": {"label": None}}))
    assert f"{labels.count(ring)} of 60 records kept" in r.stdout


# ---- mixtures ----


def mixture(datasets, **keys):
    return {"dataset": [{"path": datasets["web"], "weight": 3, "where": "lang == 'en' or lang == 'de'"},
                        {"path": datasets["books"], "weight": 1}], "batch": 32, "seed": 9, **keys}


def oracle_of(**keys):
    kept = [i for i, row in enumerate(ROWS["web"]) if row.get("lang") in ("en", "de")]
    return order_oracle.Mixture("full", "drop", 9, 32, 0, 0,
                                [{"records": 300, "weight": 3.0, "kept": kept}, {"records": 40, "weight": 1.0}], **keys)


def text_of(ragged, i):
    return bytes(ragged[i]).decode()


def test_each_sample_is_its_source_s_record(datasets):
    plan = oracle_of()
    seen = 0
    with headrace.Loader(mixture(datasets)) as loader:
        for _ in range(3):
            for batch in loader:
                want = [plan.place(batch.epoch, batch.step, i) for i in range(32)]
                assert [(int(s), int(r)) for s, r in zip(batch.sources, batch.records)] == [p[2:4] for p in want]
                for i, (_, _, source, record, _) in enumerate(want):
                    row = ROWS["books" if source else "web"][record]
                    assert text_of(batch["text"], i) == row["text"]
                    assert batch["n"][i] == row["n"]
                    assert bool(batch["score.present"][i]) == ("score" in row)
                    assert bool(batch["ok.present"][i]) == ("ok" in row)
                    assert bool(batch["note.present"][i]) == ("note" in row)
                    assert batch["score"][i] == row.get("score", 0)
                    assert text_of(batch["note"], i) == row.get("note", "")
                    seen += 1
        stats = loader.stats()
    assert seen >= 3 * 32
    by_source = stats["sources"]
    assert [s["dataset"] for s in by_source] == [datasets["web"][-64:], datasets["books"][-64:]]
    assert sum(s["samples"] for s in by_source) >= seen
    assert math.isclose(by_source[0]["asked"], 0.75) and abs(by_source[0]["share"] - 0.75) < 0.15


def test_resume_goes_on_exactly(datasets):
    with headrace.Loader(mixture(datasets)) as loader:
        rows, states = [], []
        for _ in range(2):
            for batch in loader:
                rows.append((batch.epoch, batch.step, feed.digest(batch)))
                states.append(loader.state_dict())
    with headrace.Loader(mixture(datasets)) as loader:
        loader.load_state_dict(states[4])
        assert feed.take(loader, len(rows) - 5) == rows[5:]


def refusal(keys, state):
    with headrace.Loader(keys) as loader:
        with pytest.raises(headrace.Error) as e:
            loader.load_state_dict(state)
            next(iter(loader))
    return str(e.value)


def test_refused_state_names_what_differs(datasets):
    with headrace.Loader(mixture(datasets)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    web, books = mixture(datasets)["dataset"]
    assert "another seed" in refusal(mixture(datasets, seed=10), state)
    assert "differs first: 'batch'" in refusal(mixture(datasets, batch=16), state)
    assert "differs first: 'order', 'last'" in refusal(mixture(datasets, last="wrap"), state)
    assert "differs first: the mixture" in refusal(mixture(datasets, dataset=[{**web, "weight": 2}, books]), state)
    assert "differs first: a filter" in refusal(mixture(datasets, where="n > 3"), state)
    assert "differs first: dataset" in refusal(mixture(datasets, dataset=[web, {"path": datasets["web"]}]), state)
    assert "differs first: the number of datasets" in refusal(mixture(datasets, dataset=[web]), state)
    assert "field 'text'" in refusal(mixture(datasets, fields={"text": {"max_bytes": 3}, "n": None}), state)


def test_changed_op_is_named(tmp_path):
    ops = [{"resize": 72}, {"center_crop": 64}, "hflip"]
    with headrace.Loader(feed.small(fields={"image": {"ops": ops}})) as loader:
        next(iter(loader))
        state = loader.state_dict()
    changed = refusal(feed.small(fields={"image": {"ops": [ops[0], {"center_crop": 48}, ops[2]]}}), state)
    assert "differs first: 'center_crop' of field 'image'" in changed
    assert "'hflip' of field 'image'" in refusal(
        feed.small(fields={"image": {"ops": [*ops[:2], {"hflip": {"p": 0.1}}]}}), state)


def test_check_and_bench_tell_the_mix(datasets, tmp_path):
    path = feed.write_conf(tmp_path / "m.json", mixture(datasets))
    told = json.loads(feed.run("check", path, "--json").stdout)
    kept = sum(row.get("lang") in ("en", "de") for row in ROWS["web"])
    assert [(s["records"], s["kept"], s["share"]) for s in told["sources"]] == [(300, kept, 0.75), (40, 40, 0.25)]
    assert told["epoch_samples"] == oracle_of().n
    assert f"{kept} of 300 records kept, 75.000 %" in feed.run("check", path).stdout
    measured = json.loads(feed.run("bench", path, "--batches", 200, "--json").stdout)
    assert abs(measured["sources"][0]["share"] - 0.75) < 0.02
    assert measured["shuffle_distance"] == min(s["shuffle_distance"] for s in told["sources"])


def test_check_and_bench_tell_what_a_window_costs_and_saves(tmp_path):
    """300 records of 2,000 bytes, one field of two read: the gaps are read along with it."""
    rng = random.Random(3)
    line = ['{"a": "%0500x", "b": "%01500x"}\n' % (rng.getrandbits(2000), rng.getrandbits(6000)) for _ in range(300)]
    (tmp_path / "t.jsonl").write_text("".join(line))
    feed.run("pack", "-q", "--compress", "a=none", "--compress", "b=none", tmp_path / "t.jsonl", tmp_path / "t.hrd")
    keys = {"dataset": str(tmp_path / "t.hrd"), "batch": 60, "fields": {"a": {"max_bytes": 600}}}
    told = {}
    for order in ("none", "full", {"window": {"block": 30, "open": 1}}):
        path = feed.write_conf(tmp_path / "w.json", {**keys, "order": order})
        check = json.loads(feed.run("check", path, "--json").stdout)["sources"][0]["shuffle_distance"]
        bench = json.loads(feed.run("bench", path, "--batches", 20, "--warmup", 0, "--json").stdout)
        told[str(order)[:3]] = bench
        assert bench["shuffle_distance"] == check
        assert "records stored side by side come" in feed.run("bench", path, "--batches", 5).stdout
    assert told["non"]["shuffle_distance"] == 1
    assert 4 <= told["{'w"]["shuffle_distance"] <= 14  # 0.29 of 30
    assert 70 <= told["ful"]["shuffle_distance"] <= 105  # 0.29 of 300
    assert 3.5 < told["non"]["read_amplification"] < 4.1  # 2,000 of 500 bytes, but for the last record's gap
    # What is slow on purpose does not come from storage, and is not told as if the page cache gave it.
    for slow in (["--fault", "delay=1ms:1"], ["--reader", "nil", "--no-checksum"]):
        bench = json.loads(feed.run("bench", path, "--batches", 20, "--warmup", 0, *slow, "--json").stdout)
        assert "storage_bytes_per_s" not in bench and "page cache, and yet" not in bench["verdict"]
    assert "records stored side by side come 1 samples apart (with full: 88)" in feed.run(
        "check", feed.write_conf(tmp_path / "n.json", {**keys, "order": "none"})).stdout


def test_fields_of_two_types_are_refused(datasets, tmp_path):
    (tmp_path / "other.jsonl").write_text('{"text": "a", "n": "seven"}\n{"text": "b", "n": "eight"}\n')
    feed.run("pack", "-q", tmp_path / "other.jsonl", tmp_path / "other.hrd")
    path = feed.write_conf(tmp_path / "m.json", {"dataset": [datasets["books"], str(tmp_path / "other.hrd")]})
    r = feed.run("check", path, code=2)
    assert "field 'n' is i64 in" in r.stderr and "books.hrd" in r.stderr and "other.hrd" in r.stderr


def test_bad_record_names_its_source(datasets, tmp_path):
    """A damaged record of the second source: substituted from that source, listed under its dataset."""
    broken = tmp_path / "broken.hrd"
    feed.run("pack", "-q", "--compress", "text=none", Path(datasets["books"]).with_suffix(".jsonl"), broken)
    shard = next(broken.glob("*.hrs"))
    shard.write_bytes(shard.read_bytes().replace(b"b17", b"b!7", 1))
    keys = mixture({**datasets, "books": str(broken)}, bad_budget=1, bad_consecutive=1000, last="wrap")
    listed = tmp_path / "bad.jsonl"
    with feed.Sidecar(keys, "--quarantine", listed) as sidecar:
        with headrace.Loader(sidecar.address) as loader:
            feed.take(loader, 40)
    lines = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [(line["dataset"], line["record"]) for line in lines] == [(str(broken), 17)]
    assert lines[0]["shard"].startswith(str(broken))


def test_a_small_source_with_damage_feeds_what_is_good_of_it_or_is_named(tmp_path):
    """Its share of the mix is never taken by others."""
    for name, count in (("big", 200), ("tiny", 3)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps({"text": f"{name} {i}"}) + "\n" for i in range(count)))
        feed.run("pack", "-q", "--compress", "text=none", tmp_path / f"{name}.jsonl", tmp_path / f"{name}.hrd")
    shard = next((tmp_path / "tiny.hrd").glob("*.hrs"))
    keys = {"dataset": [{"path": str(tmp_path / f"{name}.hrd"), "weight": 1} for name in ("big", "tiny")],
            "batch": 8, "fields": {"text": None}, "last": "wrap"}

    def spoil(record):
        shard.write_bytes(shard.read_bytes().replace(b"tiny %d" % record, b"tinx %d" % record, 1))

    def texts(steps, **more):
        with headrace.Loader({**keys, **more}) as loader:
            out = []
            for batch in loader:
                out += batch["text"].strings()
                if batch.step == steps:
                    return out

    spoil(0)
    spoil(2)
    got = texts(40)
    assert {t for t in got if t.startswith("tiny")} == {"tiny 1"} and texts(40) == got
    assert abs(got.count("tiny 1") - len(got) / 2) <= 16
    spoil(1)
    with pytest.raises(headrace.BudgetError, match="not one of the 3 records of '.*tiny.hrd'"):
        texts(40)
    masked = texts(40, bad_records="mask", bad_consecutive=1000)
    assert sum(t.startswith("big") for t in masked) == sum(t.startswith("big") for t in got)
    assert masked.count("") == got.count("tiny 1")
