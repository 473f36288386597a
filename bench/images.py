"""JPEG photographs, one worker on one core: how fast Headrace feeds them end to end, as they are and repacked,
beside how fast the same core merely decodes them in full with libjpeg-turbo, and what a Python consumer gets
beside a C one. All in one run, interleaved; ratios of medians.

usage: images.py BUILD FOLDER... [--rounds N] [--seconds S] [--core K]

BUILD is a meson build folder. Needs numpy. Work: random_resized_crop 224, hflip, normalize -> f16 NCHW, batches
of 64, page cache hot.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PIPELINE = """dataset: {dataset}
batch: 64
fields:
  image:
    ops:
      - random_resized_crop: {{size: 224}}
      - hflip: {{p: 0.5}}
      - normalize: {{mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}
    output: {{dtype: f16, layout: nchw}}
"""
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


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--levels", default="avx512,avx2", help="CPU levels for the repacked runs: avx512,avx2,c")
    parser.add_argument("--core", type=int, default=0)
    args = parser.parse_args()
    build = args.build.resolve()
    headrace, decode_only = build / "tools/headrace", build / "bench/decode_only"
    env = dict(os.environ, HEADRACE_BIN=str(headrace), HEADRACE_LIB=str(build / "src/client/libheadrace.so"),
               PYTHONPATH=str(ROOT / "python"))
    pin = ["taskset", "-c", str(args.core)]
    files = sorted(str(p.resolve()) for folder in args.folders for p in folder.rglob("*.jpg"))
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work, "source")
        source.mkdir()
        for i, path in enumerate(files):
            (source / f"{i:06d}.jpg").symlink_to(path)
        pipelines = {}
        for how in ("keep", "repack"):
            dataset, pipelines[how] = pathlib.Path(work, how), pathlib.Path(work, how + ".yaml")
            run([headrace, "pack", source, dataset, "-q", f"--jpeg={how}"])
            pipelines[how].write_text(PIPELINE.format(dataset=dataset))
        pipeline = pipelines["keep"]
        levels = [level for level in ("avx512", "avx2", "c") if level in args.levels.split(",")]
        rates = {"decode only": [], "headrace, C consumer": [], "headrace, Python consumer": []}
        rates.update({f"repacked, {level}": [] for level in levels})
        rows = []
        for _ in range(args.rounds):
            rates["decode only"].append(float(run(pin + [decode_only, "1", *files]).split()[0]))
            result = json.loads(run(pin + [headrace, "bench", pipeline, "--workers", "1", "--seconds", str(args.seconds), "--json"]))
            rates["headrace, C consumer"].append(result["samples_per_s"])
            rows.append(result)
            for level in levels:
                rates[f"repacked, {level}"].append(json.loads(run(
                    pin + [headrace, "bench", pipelines["repack"], "--workers", "1", "--seconds", str(args.seconds), "--json"],
                    env=dict(env, HEADRACE_CPU=level)))["samples_per_s"])
            rates["headrace, Python consumer"].append(float(run(
                pin + [sys.executable, "-c", CONSUMER, pipeline, str(args.seconds)], env=env).split()[-1]))
        idle = [json.loads(run([headrace, "bench", pipeline, "--reader", "nil", "--workers", "1", "--seconds", "1",
                                "--json"]))["stages"]["hand_off"] for _ in range(3)]
    median = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{len(files)} files, {args.rounds} interleaved rounds, core {args.core}; medians, pictures a second")
    for name, value in median.items():
        spread = f"{min(rates[name]):.0f} .. {max(rates[name]):.0f}"
        print(f"  {name:28s} {value:8.1f}   {value / median['decode only']:.3f}x decode only   ({spread})")
    for name in rates:
        if name.startswith("repacked"):
            ratio = statistics.median(a / b for a, b in zip(rates[name], rates["decode only"]))
            print(f"  {name} / decode only, pair by pair: {ratio:.2f}")
    pairs = [c / d for c, d in zip(rates["headrace, C consumer"], rates["decode only"])]
    print(f"  C consumer / decode only, pair by pair: {statistics.median(pairs):.3f}")
    pairs = [p / c for p, c in zip(rates["headrace, Python consumer"], rates["headrace, C consumer"])]
    print(f"  Python consumer / C consumer, pair by pair: {statistics.median(pairs):.3f}")
    cpu = statistics.median(r["cpu_us_per_sample"] for r in rows)
    print(f"  CPU a picture: {cpu:.0f} us feeding; of it reading {statistics.median(r['stages']['read']['cpu_us_per_sample'] for r in rows):.0f},"
          f" checksum {statistics.median(r['stages']['decode']['checksum_us_per_sample'] for r in rows):.0f},"
          f" decode and ops {statistics.median(r['stages']['decode']['decode_us_per_sample'] for r in rows):.0f}")
    print(f"  hand-off (reader nil): {statistics.median(i['consumer_cpu_us_per_batch'] for i in idle):.1f} us of the consumer's CPU a batch,"
          f" {statistics.median(i['producer_us_per_batch'] for i in idle):.1f} us of the producer's time")


if __name__ == "__main__":
    main()
