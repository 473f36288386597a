"""JPEG photographs, one worker on one core: how fast Headrace feeds them end to end, as they are and repacked,
beside how fast the same core merely decodes them in full with libjpeg-turbo; what a Python consumer gets beside a
C one; and what a second core adds. All in one run, interleaved; ratios of medians.

usage: images.py BUILD FOLDER... [--rounds N] [--seconds S] [--cores K,L] [--levels avx512,avx2,c]

BUILD is a meson build folder. Needs numpy; where simplejpeg can be imported it is measured, too. Work:
random_resized_crop 224, hflip, normalize -> f16 NCHW, batches of 64, page cache hot.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile

import photos

CONSUMER = """
import sys, time, headrace
path, seconds = sys.argv[1], float(sys.argv[2])
with headrace.Loader(path) as loader:
    def batches():
        while True:
            for batch in loader:
                yield batch
    source = batches()
    for _ in range(8):
        next(source)["image"]
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        count += len(next(source)["image"])
    print(count / (time.perf_counter() - began))
"""
SIMPLEJPEG = """
import sys, time, simplejpeg
files = [open(path, "rb").read() for path in sys.argv[1:]]
simplejpeg.decode_jpeg(files[0])
began = time.perf_counter()
for data in files:
    simplejpeg.decode_jpeg(data)
print(len(files) / (time.perf_counter() - began))
"""
ONLY = "libjpeg-turbo, decode only"


def works(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def default_cores():
    mine = sorted(os.sched_getaffinity(0))
    return ",".join(str(core) for core in mine[:2])


def measure(args, work):
    p = photos.Photos(args.build, args.folders, work)
    one, seconds = args.cores.split(",")[0], args.seconds
    pin = ["taskset", "-c", one]
    python = pin + [sys.executable, "-c"]
    rates, rows = {}, []

    def take(name, rate):
        rates.setdefault(name, []).append(rate)
    for _ in range(args.rounds):
        take(ONLY, float(photos.run(pin + [p.build / "bench/decode_only", "1", *p.files]).split()[0]))
        if works("simplejpeg"):
            take("simplejpeg, decode only", float(photos.run(python + [SIMPLEJPEG, *p.files])))
        rows.append(p.bench("keep", one, seconds))
        take("as they are", rows[-1]["samples_per_s"])
        for level in args.levels.split(","):
            take(f"repacked, {level}", p.bench("repack", one, seconds, level=level)["samples_per_s"])
        take("as they are, Python consumer",
             float(photos.run(python + [CONSUMER, p.pipelines["keep"], str(seconds)], env=p.env()).split()[-1]))
        if "," in args.cores:
            for how, name in (("keep", "as they are"), ("repack", "repacked")):
                take(f"{name}, one core", p.bench(how, one, seconds)["samples_per_s"])
                take(f"{name}, two cores", p.bench(how, args.cores, seconds)["samples_per_s"])
    idle = [p.bench("keep", args.cores, 1, "--reader", "nil")["stages"]["hand_off"] for _ in range(3)]
    return len(p.files), rates, rows, idle


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--levels", default="avx512,avx2,c", help="CPU levels for the repacked runs: avx512,avx2,c")
    parser.add_argument("--cores", default=default_cores(), help="the core to use, and a second one for the last part")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        files, rates, rows, idle = measure(args, work)

    def pairs(a, b):
        return statistics.median(x / y for x, y in zip(rates[a], rates[b]))
    print(f"{files} files, {args.rounds} interleaved rounds, cores {args.cores}; medians, pictures a second")
    for name, values in rates.items():
        spread = f"{min(values):.0f} .. {max(values):.0f}"
        print(f"  {name:28s} {statistics.median(values):8.1f}   {pairs(name, ONLY):.3f}x decode only   ({spread})")
    print(f"  Python consumer / C consumer: {pairs('as they are, Python consumer', 'as they are'):.3f}")
    if "," in args.cores:
        for name in ("as they are", "repacked"):
            print(f"  {name}, two cores / one core: {pairs(f'{name}, two cores', f'{name}, one core'):.3f}")
    middle = {name: statistics.median(value(r) for r in rows) for name, value in (
        ("cpu", lambda r: r["cpu_us_per_sample"]), ("read", lambda r: r["stages"]["read"]["cpu_us_per_sample"]),
        ("checksum", lambda r: r["stages"]["decode"]["checksum_us_per_sample"]),
        ("decode", lambda r: r["stages"]["decode"]["decode_us_per_sample"]))}
    print("  as they are: {cpu:.0f} us of CPU a picture; of it reading {read:.0f}, checksum {checksum:.0f}, "
          "decode and ops {decode:.0f}".format(**middle))
    print(f"  hand-off (reader nil): {statistics.median(i['consumer_cpu_us_per_batch'] for i in idle):.1f} us of the "
          f"consumer's CPU a batch, {statistics.median(i['producer_us_per_batch'] for i in idle):.1f} us of the "
          "producer's time")


if __name__ == "__main__":
    main()
