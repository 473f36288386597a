#!/usr/bin/env python3
"""Headrace side by side with other loaders of photographs, all from one command.

For each loader a virtual environment with its packages from PyPI, and a dataset in its own format, are made in a cache folder, once.
Then all are started, pinned to the same cores, and work in turn, in interleaved rounds; their batches are the same: random resized
crop to 224, flip, normalize, f16 NCHW. The result is a page of Markdown with a plot. A loader that cannot be installed, or fails, is
listed with its error.

    python3 bench/peers.py --data ~/photos                    # everything; the first time, gigabytes are downloaded
    python3 bench/peers.py --data ~/photos --prepare          # only install, make datasets, and try each loader once
    python3 bench/peers.py --quick --peers headrace,pillow    # a few seconds, to see that it works
    python3 bench/peers.py --clean                            # take the cache away

Needs: Linux, taskset, Python with venv; what Headrace builds with (tools/setup). FFCV is compiled when it is installed and needs
OpenCV and libturbojpeg with headers (Debian: g++ pkg-config libopencv-dev libturbojpeg0-dev); SPDL needs FFmpeg's libraries.
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import types

from peerkit import entries, measure, pictures, proc, report, venvs

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = ["simplejpeg", "headrace", "ffcv", "dali", "torchvision", "pil_torch", "webdataset", "streaming", "tfdata", "grain", "spdl", "pillow"]


def arguments():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "headrace-peers"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", default="all", metavar="A,B,..", help=f"which, also single modes as in headrace:avx2; default: {','.join(ORDER)}")
    p.add_argument("--data", action="append", type=pathlib.Path, metavar="DIR",
                   help="folder of JPEGs, may be given several times; default: the project's example data")
    p.add_argument("--limit", type=int, default=4000, metavar="N", help="take the first N pictures; 0: all (default: %(default)s)")
    p.add_argument("--cores", default="1,2", metavar="N,..", help="numbers of cores to run on, one after the other (default: %(default)s)")
    p.add_argument("--pin", metavar="CPU,..", help="the CPUs to take them from; default: one of each physical core")
    p.add_argument("--batch", type=int, default=64, metavar="N", help="pictures in a batch (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5, metavar="N", help="(default: %(default)s)")
    p.add_argument("--seconds", type=float, default=2, metavar="S",
                   help="a loader's slice in a round, after its queues ran dry (default: %(default)s)")
    p.add_argument("--quick", action="store_true", help="few pictures, short rounds: shows that it works, measures nothing")
    p.add_argument("--prepare", action="store_true", help="install, make datasets, start each loader once, and stop")
    p.add_argument("--no-install", action="store_true", help="no virtual environments: every loader runs in this Python")
    p.add_argument("--cache", type=pathlib.Path, default=cache, metavar="DIR", help="environments and datasets (default: %(default)s)")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR",
                   help="meson build of Headrace; made when missing (default: build)")
    p.add_argument("--out", type=pathlib.Path, metavar="FILE.md",
                   help="write the page here, and FILE.svg and FILE.json beside it; default: print the page")
    p.add_argument("--from", dest="source", type=pathlib.Path, metavar="FILE.json", help="make the page of an earlier run again")
    p.add_argument("--timeout", type=float, default=180, metavar="S",
                   help="a loader that gave no first batch by then has failed (default: %(default)s)")
    p.add_argument("--list", action="store_true", help="list loaders and modes, and stop")
    p.add_argument("--clean", action="store_true", help="take away what this kit made in the cache folder, and stop")
    args = p.parse_args()
    args.cache, args.build = args.cache.expanduser().resolve(), args.build.resolve()
    args.cores = [int(c) for c in args.cores.split(",")]
    if args.quick:
        args.limit, args.batch, args.rounds, args.seconds = min(args.limit or 64, 64), min(args.batch, 16), 2, 0.3
    return args


def say(text):
    print(text, file=sys.stderr, flush=True)


def chosen(text):
    """[(peer, mode)] of --peers."""
    found = []
    for word in ORDER if text == "all" else text.split(","):
        peer, _, mode = word.partition(":")
        if peer not in ORDER:
            sys.exit(f"no loader '{peer}': there are {', '.join(ORDER)}")
        modes = entries.load(peer).MODES
        if mode and mode not in modes:
            sys.exit(f"{peer} has no mode '{mode}': there are {', '.join(modes)}")
        found += [(peer, m) for m in ([mode] if mode else modes)]
    return found


def example_data():
    for base in (os.environ.get("HR_SHARED"), ROOT.parent / "shared", ROOT.parent.parent / "shared"):
        folder = pathlib.Path(base or "", "data", "images")
        if base and (folder / "flowers").is_dir():
            return [folder / "flowers", folder / "coco"]
    sys.exit("give a folder of photographs with --data")


def build(folder):
    """Headrace, built when it is not; what its entries need to know."""
    if not (folder / "build.ninja").exists():
        say(f"building Headrace in {folder.name}")
        subprocess.run(["meson", "setup", folder, ROOT], check=True, stdout=sys.stderr)
    targets = ["tools/headrace", "bench/consume", "src/client/libheadrace.so"]
    done = subprocess.run(["ninja", "-C", folder, *targets], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"Headrace does not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    names = ["binary", "consumer", "library"]
    return {"python": str(ROOT / "python"), **{name: str(folder / target) for name, target in zip(names, targets)}}


def prepare(context, wanted):
    """Entries, installed and with datasets, or with the reason why not."""
    found, failed = [entries.Entry(peer, mode, context) for peer, mode in wanted], {}
    for entry in found:
        try:
            if entry.dataset() in failed:
                raise venvs.Failed(failed[entry.dataset()])
            entry.prepare()
        except venvs.Failed as why:
            entry.failure = str(why)
            if not entry.lacking():
                failed[entry.dataset()] = entry.failure
            say(f"  {entry.name}: {why}")
    return found


def describe(args, context, found, runs):
    """All that the page needs, as JSON."""
    def plain(text):
        for path, name in ((context.work, "$WORK"), (args.cache, "$CACHE"), (args.build, "$BUILD"), (ROOT, ".")):
            text = text.replace(str(path), name)
        return text
    version = subprocess.run([context.headrace["binary"], "--version"], capture_output=True, text=True).stdout.split()
    for run in runs.values():
        for result in run.values():
            result["command"] = plain(shlex.join(result.get("command", [])))
            if "failure" in result:
                result["failure"] = plain(result["failure"])
    given = {"peers": args.peers, "cores": ",".join(map(str, args.cores)), "rounds": args.rounds, "seconds": f"{args.seconds:g}",
             "batch": args.batch}
    command = "python3 bench/peers.py" + "".join(f" --{k} {v}" for k, v in given.items() if v != "all")
    return {
        "date": datetime.date.today().isoformat(), "machine": report.machine(), "headrace": version[-1] if version else "?",
        "pictures": context.pictures.facts,
        "options": {"command": command, "cores": args.cores, "rounds": args.rounds, "seconds": args.seconds, "batch": args.batch},
        "entries": {e.name: {"title": e.title, "given": e.given, "easier": bool(e.mode.get("easier")), "versions": e.versions,
                             "first": e.first, "kb": e.kb(), "failure": e.failure and plain(e.failure)} for e in found},
        "runs": {str(k): v for k, v in runs.items()}}


def write(args, data):
    if not args.out:
        print(report.page(data))
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    args.out.with_suffix(".svg").write_text(report.picture(data))
    args.out.write_text(report.page(data, args.out.with_suffix(".svg").name))
    say(f"written: {args.out} and .svg, .json beside it")


def run(args, work):
    wanted = chosen(args.peers)
    context = types.SimpleNamespace(cache=args.cache, work=work, batch=args.batch, warmup=0.1 if args.quick else 0.3,
                                    timeout=args.timeout, patience=min(args.timeout, 60), no_install=args.no_install, say=say,
                                    headrace=build(args.build))
    args.cache.mkdir(parents=True, exist_ok=True)
    context.pictures = pictures.Pictures(args.cache, args.data or example_data(), args.limit, 0 if args.quick else 2000)
    found = prepare(context, wanted)
    context.pictures.warm(*{e.dataset() for e in found if not e.failure})
    runs = {}
    for cores in args.cores[:1] if args.prepare else args.cores:
        pins = proc.cores(cores, [int(c) for c in args.pin.split(",")] if args.pin else None)
        if not pins:
            say(f"there are no {cores} CPUs here")
            continue
        say(f"{cores} core{'s' if cores > 1 else ''}: CPU {', '.join(map(str, pins))}")
        runs[cores] = measure.run(found, cores, pins, 0 if args.prepare else args.rounds, args.seconds, say)
    if args.prepare:
        tried = next(iter(runs.values()), {})
        failed = {e.name: e.failure or tried.get(e.name, {}).get("failure") for e in found}
        say("ready: " + (", ".join(name for name, why in failed.items() if not why) or "none"))
        for name, why in failed.items():
            if why:
                say(f"not {name}: {why}")
    else:
        args.cores = list(runs)
        write(args, describe(args, context, found, runs))


def main():
    args = arguments()
    if args.list:
        for peer in ORDER:
            for name, mode in entries.load(peer).MODES.items():
                print(f"{peer + (':' + name if name else ''):22s} {mode['title']}: {mode['given']}")
    elif args.clean:
        venvs.clean(args.cache)
    elif args.source:
        write(args, json.loads(args.source.read_text()))
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        signal.signal(signal.SIGINT, signal.default_int_handler)     # also where a shell started this in the background
        with tempfile.TemporaryDirectory(prefix="headrace-peers-") as work:
            run(args, pathlib.Path(work))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped")
