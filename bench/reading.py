"""Cold storage: how many bytes a second Headrace reads of photographs in random order, beside what fio reads of the
same file with the same offsets and sizes at the same depth, and with random blocks of 112 KiB. Interleaved, medians.

usage: reading.py BUILD WORK FOLDER... [--rounds N] [--copies N] [--io direct|cached]

BUILD is a meson build folder; WORK gets the dataset (about copies x the folders' bytes) and is kept. Needs fio.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess

DEPTH = 128  # what Headrace's reader keeps in flight
PAGE, LARGE = 4096, 65536  # values from LARGE on begin at pages (docs/formats/hrs.md)


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def pack(build, work, folders, copies):
    """The files' sizes in the order of their names, and the only shard."""
    source = work / "source"
    if not source.is_dir():
        source.mkdir(parents=True)
        files = sorted(p for f in folders for p in pathlib.Path(f).rglob("*.jpg"))
        for k in range(copies):
            for i, path in enumerate(files):
                (source / f"{k:03d}-{i:05d}.jpg").symlink_to(path.resolve())
        run(build / "tools/headrace", "pack", source, work / "dataset", "--jpeg=keep", "--shard-size", "64GiB")
    return [p.stat().st_size for p in sorted(source.iterdir())], work / "dataset/data-00000.hrs"


def write_log(path, shard, sizes, seed):
    """fio's replay of what the reader asks for: each value in whole pages, in random order."""
    reads, at = [], PAGE
    for size in sizes:
        at = -(-at // PAGE) * PAGE if size >= LARGE else at
        reads.append((at // PAGE * PAGE, -(-(at + size) // PAGE) * PAGE))
        at += size
    reads = [r for r in reads if r[1] <= shard.stat().st_size]
    random.Random(seed).shuffle(reads)
    lines = [f"{shard} read {first} {end - first}" for first, end in reads]
    path.write_text("\n".join(["fio version 2 iolog", f"{shard} add", f"{shard} open", *lines, f"{shard} close"]) + "\n")


def forget(shard):
    fd = os.open(shard, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def fio(shard, io, *options):
    forget(shard)
    out = run("fio", "--name=reading", "--readonly", "--ioengine=io_uring", f"--iodepth={DEPTH}",
              f"--direct={int(io == 'direct')}", "--output-format=json", *options)
    return json.loads(out)["jobs"][0]["read"]["bw_bytes"] / 1e6


def headrace(build, conf, shard, io, batches):
    forget(shard)
    report = json.loads(run(build / "tools/headrace", "bench", conf, f"--io={io}", "--no-decode", "--no-checksum",
                            "--warmup", 0, "--batches", batches, "--json"))
    return report["bytes_read_per_s"] / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=24)
    parser.add_argument("--io", choices=["direct", "cached"], default="direct")
    args = parser.parse_args()

    sizes, shard = pack(args.build, args.work, args.folders, args.copies)
    conf, log = args.work / "reading.yaml", args.work / "fio.log"
    conf.write_text(f"dataset: {args.work / 'dataset'}\nbatch: 64\nfields:\n  image:\n    ops:\n"
                    "      - random_resized_crop: {size: 224}\n")
    rates = {"fio, the same reads": [], "fio, random 112 KiB": [], "headrace": []}
    for i in range(args.rounds):
        write_log(log, shard, sizes, i)
        rates["fio, the same reads"].append(fio(shard, args.io, f"--read_iolog={log}", "--replay_no_stall=1"))
        rates["headrace"].append(headrace(args.build, conf, shard, args.io, len(sizes) // 64 - 1))
        rates["fio, random 112 KiB"].append(fio(shard, args.io, f"--filename={shard}", "--rw=randread", "--bs=112k",
                                                f"--size={shard.stat().st_size}", f"--randseed={i}"))
    medians = {name: statistics.median(r) for name, r in rates.items()}
    for name, rate in medians.items():
        print(f"{name:22} {rate:7.0f} MB/s  ({min(rates[name]):.0f} to {max(rates[name]):.0f})")
    print(f"headrace / fio, the same reads: {medians['headrace'] / medians['fio, the same reads']:.2f}")


if __name__ == "__main__":
    main()
