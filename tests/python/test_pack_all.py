"""All shared data through pack, verify, inspect and the loader; and single flipped bits."""
import hashlib
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

SHARED = feed.shared()
needs_data = pytest.mark.skipif(not SHARED, reason="no shared data (set HR_SHARED)")
DATA = SHARED / "data" if SHARED else Path("/nonexistent")
FLIPS = int(os.environ.get("HR_FLIPS", "120"))
BIN = os.environ.get("HEADRACE_ASAN_BIN", feed.BIN)


def pack(dst, *args):
    return json.loads(feed.run("pack", "--json", *args, dst, timeout=300).stdout)


def rows_of(dataset, count):
    out = feed.run("inspect", dataset, "--records", f"0:{count}", "--json").stdout
    return [json.loads(line) for line in out.splitlines()]


def extract_all(dataset, wanted):
    """wanted: (record, field, bytes that must come back)."""
    def one(job):
        record, field, want = job
        r = subprocess.run([feed.BIN, "inspect", dataset, str(record), "--extract", field, "--out", "-"],
                           capture_output=True, timeout=60)
        return r.returncode == 0 and r.stdout == want

    with ThreadPoolExecutor(2) as pool:
        return [job[:2] for job, same in zip(wanted, pool.map(one, wanted)) if not same]


@needs_data
@pytest.mark.parametrize("folder, records, twice", [
    ("images/flowers", 240, "images/flowers"), ("images/coco", 110, "images/coco"), ("audio", 432, "audio"),
    ("video", 47, "video/asl-gestures"),
])
def test_folders(folder, records, twice, tmp_path):
    made = pack(tmp_path / "d.hrd", DATA / folder)
    assert (made["records"], made["rejected"]) == (records, 0)
    digests = {pack(tmp_path / f"j{jobs}.hrd", DATA / twice, "--jobs", jobs)["digest"] for jobs in (1, 2)}
    assert len(digests) == 1 and (twice != folder or digests == {made["digest"]})
    feed.run("verify", tmp_path / "d.hrd")
    wanted = []
    for row in rows_of(tmp_path / "d.hrd", records):
        (field,) = [f for f, v in row["fields"].items() if f != "label" and v is not None]
        wanted.append((row["id"], field, (DATA / folder / row["key"]).read_bytes()))
    assert len(wanted) == records
    assert extract_all(tmp_path / "d.hrd", wanted) == []


@needs_data
@pytest.mark.parametrize("name, embed", [("image-caption", "image"), ("audio-transcript", "audio")])
def test_pairs(name, embed, tmp_path):
    source = DATA / "pairs" / f"{name}.jsonl"
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    args = (source, "--embed", embed, "--root", DATA)
    made = [pack(tmp_path / f"{jobs}.hrd", *args, "--jobs", jobs) for jobs in (1, 2)]
    assert made[0]["digest"] == made[1]["digest"] and made[0]["records"] == len(rows)
    feed.run("verify", tmp_path / "1.hrd")
    wanted = [(i, embed, (source.parent / row[embed]).read_bytes()) for i, row in enumerate(rows)]
    assert extract_all(tmp_path / "1.hrd", wanted) == []


def same(value, want):
    if isinstance(want, str):
        return value == want.encode()
    return json.loads(value) == want


@needs_data
@pytest.mark.parametrize("path", sorted(p.relative_to(DATA) for p in DATA.glob("text/jsonl/*.jsonl"))
                         + [Path("pairs/interleaved/interleaved.jsonl")], ids=lambda p: p.stem)
def test_lines_come_back_in_their_order(path, tmp_path):
    rows = [json.loads(line) for line in (DATA / path).read_text().splitlines()]
    made = [pack(tmp_path / f"{jobs}.hrd", DATA / path, "--jobs", jobs) for jobs in (1, 2)]
    assert made[0]["digest"] == made[1]["digest"] and made[0]["records"] == len(rows)
    feed.run("verify", tmp_path / "1.hrd")
    with headrace.Loader(feed.conf(tmp_path / "1.hrd", batch=64, order="none", last="keep")) as loader:
        at = 0
        for batch in loader:
            for name in batch:
                if name.endswith(".present"):
                    continue
                field = batch[name]
                for i, row in enumerate(rows[at:at + batch.count]):
                    if row.get(name) is None:
                        continue
                    value = field[i].tobytes() if isinstance(field, headrace.Ragged) else json.dumps(field[i].item())
                    assert same(value, row[name]), (at + i, name)
            at += batch.count
        assert at == len(rows)


# ---- single bits ----


def flip_base(folder):
    """A dataset of many field types and few bytes: (folder, its files, the pipeline)."""
    src = folder / "src"
    feed.run("synth", src, "--kind", "captions", "--as", "folder", "-n", 10, "-q", "--width", 48, "--height", 32)
    for i, text in enumerate(sorted(src.glob("*.txt"))):
        np.save(text.with_suffix(".npy"), np.arange(20 + i, dtype=np.uint16))
    feed.run("pack", src, folder / "d.hrd", "-q")
    keys = feed.conf("d.hrd", batch=5, bad_budget=1,
                     fields={name: None for name in json.loads(feed.run("inspect", folder / "d.hrd", "--json").stdout)
                             ["fields"] if name != "image"} | {"image": {"ops": [{"resize": [24, 24]}]}})
    feed.write_conf(folder / "c.json", keys)
    return folder / "d.hrd"


def test_a_flipped_bit_is_named_by_verify_and_crashes_nothing(tmp_path):
    dataset = flip_base(tmp_path)
    files = [p for p in sorted(dataset.iterdir()) if p.suffix in (".hrm", ".hrs")]
    sizes = [p.stat().st_size for p in files]
    rng = random.Random(41)
    feed.run("verify", dataset)
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    missed, codes = [], {}
    for n in range(FLIPS):
        # Half of them in the manifest and in the heads and tails of shards, where the structure is.
        path = rng.choices(files, sizes)[0] if n % 2 else rng.choice(files)
        data = path.read_bytes()
        at = rng.randrange(len(data)) if n % 2 else rng.choice((rng.randrange(min(256, len(data))),
                                                               len(data) - 1 - rng.randrange(min(4096, len(data)))))
        bit = rng.randrange(8)
        spoiled = bytearray(data)
        spoiled[at] ^= 1 << bit
        path.write_bytes(spoiled)
        r = subprocess.run([BIN, "verify", dataset, "--json"], capture_output=True, text=True, env=env, timeout=60)
        if r.returncode != 1 or path.name not in r.stdout:
            missed.append((path.name, at, bit, r.returncode, r.stdout[:200], r.stderr[-300:]))
        r = subprocess.run([BIN, "bench", tmp_path / "c.json", "--batches", "4", "--warmup", "0", "--json", "-q"],
                           capture_output=True, text=True, env=env, timeout=60)
        codes[r.returncode] = codes.get(r.returncode, 0) + 1
        assert r.returncode in (0, 2, 3), (path.name, at, bit, r.returncode, r.stderr[-3000:])
        path.write_bytes(data)
    print(f"{FLIPS} flips; exit codes of bench: {codes}")
    assert missed == []
    feed.run("verify", dataset)


def test_a_cut_file_crashes_nothing(tmp_path):
    dataset = flip_base(tmp_path)
    rng = random.Random(42)
    for path in sorted(dataset.iterdir()):
        data = path.read_bytes()
        for n in range(12):
            path.write_bytes(data[:rng.randrange(len(data))] + (b"\0" * 100 if n % 3 == 0 else b""))
            r = subprocess.run([BIN, "verify", dataset, "--json"], capture_output=True, text=True, timeout=60)
            assert r.returncode == 1 and path.name in r.stdout, (r.returncode, r.stdout, r.stderr)
            r = subprocess.run([BIN, "bench", tmp_path / "c.json", "--batches", "4", "--warmup", "0", "-q"],
                               capture_output=True, text=True, timeout=60)
            assert r.returncode in (0, 2, 3), (r.returncode, r.stderr[-2000:])
        path.write_bytes(data)


def test_digest_of_files_is_that_of_an_independent_reader(tmp_path):
    """sha256 of the pictures as they went in and as they come out, over the whole set."""
    src = tmp_path / "src"
    feed.run("synth", src, "--kind", "images", "--as", "folder", "-n", 20, "-q")
    feed.run("pack", src, tmp_path / "d.hrd", "-q")
    for row in rows_of(tmp_path / "d.hrd", 20):
        out = subprocess.run([feed.BIN, "inspect", tmp_path / "d.hrd", row["key"], "--extract", "image", "--out", "-"],
                             capture_output=True, check=True).stdout
        assert hashlib.sha256(out).digest() == hashlib.sha256((src / row["key"]).read_bytes()).digest()
