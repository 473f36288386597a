"""headrace inspect and verify on a small dataset: JSON forms, extraction, exit codes, repair list, and
text that is not UTF-8 or would move a terminal's cursor. usage: inspect_verify.py HEADRACE"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

headrace = sys.argv[1]


def run(*args, code=0):
    p = subprocess.run([headrace, *map(str, args)], capture_output=True)
    assert p.returncode == code, "%s: exit code %d: %s" % (args, p.returncode, p.stderr.decode(errors="replace"))
    return p.stdout


def make(folder):
    texts = ["plain", "é日本", "", "\x1b[31mred\x07\u202e", "x" * 300000]
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps({"text": t, "n": i - 2, "f": i / 3, "ok": i % 2 == 0, "s": "s%d" % i}) + "\n"
                              for i, t in enumerate(texts)))
    run("pack", source, folder / "a.hrd", "-q")
    return texts


def check_dataset(ds):
    d = json.loads(run("inspect", ds, "--json"))
    assert d["records"] == 5 and len(d["digest"]) == 32
    assert d["bytes"] == sum(s["bytes"] for s in d["shards"])
    assert [s["bytes"] for s in d["shards"]] == [(ds / s["name"]).stat().st_size for s in d["shards"]]
    assert d["fields"]["text"]["type"] == "text" and d["fields"]["text"]["present"] == 5
    assert d["versions"][0]["digest"] == d["digest"]
    run("inspect", ds, "--version", d["digest"][:8], "--json")
    run("inspect", ds, "--version", "ffffffffffff", code=2)
    return d


def check_records(ds, texts):
    rows = [json.loads(line) for line in run("inspect", ds, "--records", "1:4", "--json").splitlines()]
    assert [r["id"] for r in rows] == [1, 2, 3]
    assert rows[0]["fields"]["n"] == -1 and rows[0]["fields"]["f"] == 1 / 3
    assert rows[0]["fields"]["s"] in ("s1", {"bytes": 2, "items": 2})  # pack chooses str or text
    assert rows[0]["fields"]["ok"] is False
    assert rows[2]["fields"]["text"]["bytes"] == len(texts[3].encode())
    assert json.loads(run("inspect", ds, 4, "--json"))["id"] == 4
    shown = run("inspect", ds, 3).decode()
    assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown and "\\x1b[31mred" in shown
    run("inspect", ds, 5, code=2)
    run("inspect", ds, "--records", "4:1", code=2)


def check_extract(ds, texts, folder):
    for i, text in enumerate(texts):
        assert run("inspect", ds, i, "--extract", "text", "--out", "-") == text.encode()
    run("inspect", ds, "--extract", "text", "--record", 4, "--out", folder / "x")
    assert (folder / "x").read_bytes() == texts[4].encode()
    assert run("inspect", ds, 0, "--extract", "n", "--out", "-") == b"-2\n"
    run("inspect", ds, 0, "--extract", "none", "--out", "-", code=2)


def check_verify(ds, shard, folder):
    assert run("verify", ds, "--json") == b""
    assert b"all right" in run("verify", ds)
    data = bytearray((ds / shard).read_bytes())
    data[100] ^= 1  # inside the first block
    (ds / shard).write_bytes(data)
    rows = [json.loads(line) for line in run("verify", ds, "--json", "--repair-list", folder / "bad", code=1).splitlines()]
    assert rows and all(set(r) == {"shard", "record", "field", "offset", "reason"} for r in rows)
    assert all(r["shard"] == shard for r in rows)
    bad = [json.loads(line) for line in (folder / "bad").read_text().splitlines()]
    assert bad and all(b["shard"] == shard for b in bad)
    (ds / shard).unlink()
    rows = [json.loads(line) for line in run("verify", ds, "--json", code=1).splitlines()]
    assert len(rows) == 1 and rows[0]["record"] is None
    run("inspect", ds, code=2)
    run("verify", folder / "nothing", code=2)


def check_bytes_that_are_no_text(folder):
    source = folder / "tree" / "class"
    source.mkdir(parents=True)
    name = b"bad\xff\x1b[2Jname.wav"
    wav = b"RIFF" + (36 + 200).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little") + bytes(
        [1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0]) + b"data" + (200).to_bytes(4, "little") + bytes(200)
    (source / "a.wav").write_bytes(wav)
    with open(bytes(source) + b"/" + name, "wb") as f:
        f.write(wav)
    ds = folder / "b.hrd"
    run("pack", folder / "tree", ds, "-q")
    shown = run("inspect", ds) + run("inspect", ds, 0) + run("inspect", ds, 1)
    shown.decode()
    assert b"\x1b" not in shown
    for line in run("inspect", ds, "--records", "0:2", "--json").splitlines():
        json.loads(line.decode())


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        texts = make(folder)
        ds = folder / "a.hrd"
        d = check_dataset(ds)
        check_records(ds, texts)
        check_extract(ds, texts, folder)
        check_verify(ds, d["shards"][0]["name"], folder)
        check_bytes_that_are_no_text(folder)
    print("inspect and verify agree")


main()
