"""Storage that fails, stalls and damages what it holds, all at once: no sample is lost or comes twice, no wrong bit
is delivered, and what stands in for damaged records is what docs/order.md says, at any number of ranks."""
import importlib.util
import json
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

RECORDS, BATCH, SEED = 320, 16, 7


def oracle():
    spec = importlib.util.spec_from_file_location("order_oracle", feed.ROOT / "tests" / "golden" / "order_oracle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keys(**more):
    return feed.small(records=RECORDS, **{"batch": BATCH, "seed": SEED, "epochs": 2, "bad_budget": 1, **more})


def contents(batch):
    return {int(r): batch["image"][i].tobytes() for i, r in enumerate(batch.records)}


@pytest.fixture(scope="module")
def clean():
    """Pixels of each record: they depend on nothing else here."""
    found = {}
    with headrace.Loader(keys()) as loader:
        for batch in loader:
            found.update(contents(batch))
    return found


def ids(loader, clean):
    """Of both epochs, batch after batch; every picture is the right one."""
    out = []
    for _ in range(2):
        for batch in loader:
            assert batch.valid.all()
            for record, pixels in contents(batch).items():
                assert pixels == clean[record], record
            out.append(batch.records.tolist())
    return out


def run(faults, world, clean, quarantine, **more):
    """(ids of the global batches, damaged records, statistics) of all ranks."""
    with feed.Sidecar(keys(**more), "--fault", faults, "--quarantine", quarantine) as sidecar:
        loaders = [headrace.Loader(sidecar.address, rank=r, world=world) for r in range(world)]
        parts = [ids(loader, clean) for loader in loaders]
        stats = loaders[0].stats()
        if world == 1:  # also when it is run again
            loaders[0].load_state_dict({})
            assert ids(loaders[0], clean) == parts[0]
        for loader in loaders:
            loader.close()
    bad = {json.loads(line)["record"] for line in open(quarantine)} if Path(quarantine).exists() else set()
    return [sum((part[i] for part in parts), []) for i in range(len(parts[0]))], bad, stats


def planned(bad):
    order = oracle().Order("full", "drop", SEED, RECORDS, BATCH, 0, 0)

    def delivered(place):
        attempt, record = 0, place[3]
        while record in bad:
            attempt += 1
            record = order.substitute(place, attempt)
        return record

    return [[delivered(order.place(epoch, step, i)) for i in range(BATCH)]
            for epoch in range(2) for step in range(RECORDS // BATCH)]


def test_all_faults_together_change_nothing_but_the_damaged_records(clean, tmp_path):
    faults = "seed=11,flip=0.08,eio=0.05,burst=4:0.05,short=0.05,noise=@9,delay=20ms:0.05,stall={}@7"
    rows, bad, stats = run(faults.format("2s"), 1, clean, tmp_path / "q")
    assert 5 < len(bad) < 80 and rows == planned(bad)
    assert stats["bad_records"] == len(bad) and stats["bad_checksum"] >= 2 * len(bad) and stats["read_errors"] > 10
    for name, world, more in (("a", 1, {"workers": 1}), ("b", 2, {}), ("c", 4, {"io": "cached", "reader": "preadv"})):
        assert run(faults.format("300ms"), world, clean, tmp_path / name, **more)[:2] == (rows, bad), (world, more)


def test_bytes_that_are_right_when_read_again_cost_nothing(clean, tmp_path):
    rows, bad, stats = run("noise=@4", 1, clean, tmp_path / "q")
    assert rows == planned(set()) and bad == set()
    assert stats["bad_samples"] == 0 and stats["read_errors"] > 0


def test_many_passing_errors_are_not_taken_for_damage(clean, tmp_path):
    """Also where a record is hit twice in a row: not twice in the same way."""
    for world in (1, 2, 4):
        rows, bad, stats = run("seed=5,noise=0.2,eio=0.1", world, clean, tmp_path / str(world))
        assert rows == planned(set()) and bad == set()
        assert stats["bad_samples"] == 0 and stats["read_errors"] > 2


def test_compressed_blocks_are_read_again_as_well(tmp_path):
    """Values of one block share what was unpacked last: not what was wrong."""
    want = [f"record {i} " * 40 for i in range(400)]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "rows.jsonl").write_text("".join(json.dumps({"words": w}) + "\n" for w in want))
    feed.run("pack", "-q", "--compress", "words=lz4", tmp_path / "src", tmp_path / "d.hrd")
    conf = feed.conf(tmp_path / "d.hrd", batch=20, order="none", epochs=1)
    seen = 0
    for number in (1, 2, 3):
        with feed.Sidecar(conf, "--fault", f"noise=@{number}") as sidecar:
            with headrace.Loader(sidecar.address) as loader:
                assert [w for batch in loader for w in batch["words"].strings()] == want
                stats = loader.stats()
        seen += stats["read_errors"]
        assert stats["bad_samples"] == 0
    assert seen > 0
