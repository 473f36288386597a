"""Where the time goes: CPU microseconds a picture in each stage of feeding photographs, from samples of the program
counter (perf) while one worker on one core feeds as fast as it can.

usage: stages.py BUILD FOLDER... [--seconds S] [--core K] [--levels avx512,avx2,c]

Work: as in images.py. Needs perf; static functions are told by their names, so BUILD must not be stripped.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import tempfile

import photos

# The first that matches a function of the worker wins.
STAGES = [
    ("libjpeg", None),
    ("checksum", r"XXH|hr_checksum|hash"),
    ("Huffman decoding", r"read_row|make_table|find_long|rj_read_markers|rj_scan"),
    ("unpacking of values", r"decode_file|parse_|unpack|expand|unfold|take_exceptions|skip_exceptions|patch|rj_tile_|rj_cell|popcount"),
    ("inverse transform", r"^do_|inverse|transform|^flat$|^run$|store_block|place|gather_wide"),
    ("upsampling", r"^across|^down|^both|hr_rjpeg_decode|give_|add_|full_row|repeat"),
    ("colours", r"ycc_to_|interleave"),
    ("resize: coefficients", r"hr_axis|hr_hplan|hr_resample_begin|^weigh|^round_weights"),
    ("resize: horizontal", r"^hresize"),
    ("resize: vertical", r"^vnarrow|^vwide|^combine"),
    ("resize: rows", r"hr_resample|hr_image_sink|push_row|push_planes|^push$"),
    ("normalize, convert, store", r"^planar_|^packed_|fill_table|fmaf"),
]
ORDER = ["reading"] + [name for name, _ in STAGES] + ["worker, other", "worker, kernel", "hand-off and consumer"]


def stage_of(thread, library, symbol):
    if "reader" in thread:
        return "reading"
    if "worker" not in thread:
        return "hand-off and consumer"
    if "libjpeg" in library:
        return "libjpeg"
    if library.startswith("["):
        return "worker, kernel"
    for name, pattern in STAGES:
        if pattern and re.search(pattern, symbol):
            return name
    return "worker, other"


def shares(data):
    out = photos.run(["perf", "report", "-i", data, "--stdio", "--no-children", "--sort", "comm,dso,sym"])
    total = collections.Counter()
    for line in out.splitlines():
        found = re.match(r"\s*([\d.]+)%\s+(\S+)\s+(\S+)\s+\[.\]\s+(\S+)", line)
        if found:
            total[stage_of(*found.groups()[1:])] += float(found[1])
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--core", default="0")
    parser.add_argument("--levels", default="avx512,avx2,c")
    args = parser.parse_args()
    columns = {}
    with tempfile.TemporaryDirectory() as work:
        p = photos.Photos(args.build, args.folders, work)
        for how, level in [("keep", None)] + [("repack", level) for level in args.levels.split(",")]:
            rate = p.bench(how, args.core, args.seconds, level=level)
            command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "4000", "-D", "1000", "-o", f"{work}/perf.data", "taskset", "-c",
                       args.core, p.headrace, "bench", p.pipelines[how], "--workers", "1", "--warmup", "1",
                       "--seconds", str(args.seconds), "--json"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=p.env(level))
            part = shares(f"{work}/perf.data")
            whole = rate["cpu_us_per_sample"]
            columns["as it is" if how == "keep" else f"repacked, {level}"] = {
                name: share / sum(part.values()) * whole for name, share in part.items()}
    print("| CPU microseconds a picture | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for name in ORDER:
        if any(column.get(name, 0) >= 0.5 for column in columns.values()):
            print(f"| {name} | " + " | ".join(f"{column.get(name, 0):.0f}" for column in columns.values()) + " |")
    print("| all | " + " | ".join(f"{sum(column.values()):.0f}" for column in columns.values()) + " |")


if __name__ == "__main__":
    main()
