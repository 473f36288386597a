"""Checks the verdict of headrace bench: the bound that it names is the one that was built in, and the rate that it
predicts for one more core is the rate that a second core gives.

usage: verdict.py BUILD FOLDER... [--seconds S] [--cores K,L] [--rounds N]

FOLDER holds JPEG photographs. Runs: one core and two cores, interleaved; storage that answers late (the fault
reader); a trainer whose step takes long.
"""
import argparse
import pathlib
import statistics
import tempfile

import photos


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", default="0,1")
    args = parser.parse_args()
    one, failed = args.cores.split(",")[0], False

    def line(what, result, bound, text=""):
        nonlocal failed
        right = result["bound_by"] == bound
        failed |= not right
        print(f"{what}: {result['samples_per_s']:.0f}/s, bound by {result['bound_by']}{'' if right else ' (WRONG)'}"
              f" {text}\n    {result['verdict']}")

    with tempfile.TemporaryDirectory() as work:
        p = photos.Photos(args.build, args.folders, work)
        for how in ("repack", "keep"):
            rounds = [(p.bench(how, one, args.seconds), p.bench(how, args.cores, args.seconds))
                      for _ in range(args.rounds)]
            errors = [a["samples_per_s_with_one_more_core"] / b["samples_per_s"] - 1 for a, b in rounds]
            gain = statistics.median(b["samples_per_s"] / a["samples_per_s"] for a, b in rounds)
            off = statistics.median(errors)
            failed |= abs(off) > 0.1
            line(f"{how}, one core", rounds[-1][0], "decode")
            line(f"{how}, two cores", rounds[-1][1], "decode", f"{gain:.2f}x; predicted {off:+.1%} off")
        line("late storage", p.bench("repack", args.cores, args.seconds, "--fault", "delay=400ms:1"), "read")
        line("slow trainer", p.bench("repack", args.cores, args.seconds, "--step-ms", "200"), "trainer")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
