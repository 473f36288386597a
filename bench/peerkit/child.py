"""One loader in one process: `child.py prepare|run PEER.py JOB.json [SPAWNED_NS]`.

prepare: makes the loader's own dataset. run: speaks with the parent in lines. On stdout, JSON: "ready" after the first batch, then for
each line "go SECONDS" on stdin "begin" and "end" with the pictures and seconds between two arrivals of batches. End of stdin ends it.
"""
import importlib.util
import json
import os
import pathlib
import sys
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
# Beside the loaders' files lie names of packages (peers/webdataset.py): neither that folder nor this may be where imports look.
sys.path[0] = str(HERE.parent)


def load(path):
    spec = importlib.util.spec_from_file_location("peer_" + pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def read_job(path):
    job = types.SimpleNamespace(**json.loads(pathlib.Path(path).read_text()))
    job.files = pathlib.Path(job.list).read_text().split("\n") if job.list else []
    job.mode = types.SimpleNamespace(**job.mode)
    return job


# Not under the guard at the end: processes that a loader spawns import this file again, and need its classes.
PEER = load(sys.argv[2])
JOB = read_job(sys.argv[3])


def say(event, **facts):
    os.write(OUT, (json.dumps({"event": event, **facts}) + "\n").encode())


def look_at(batch):
    """Shape, type, mean and deviation: whether this is what was asked for."""
    import numpy as np
    values = np.asarray(batch)
    return {"shape": list(values.shape), "dtype": str(values.dtype),
            "mean": float(values.mean(dtype="f8")), "std": float(values.astype("f4").std(dtype="f8"))}


def main():
    if sys.argv[1] == "prepare":
        return PEER.prepare(JOB)
    source = PEER.batches(JOB)
    batch = next(source)
    say("ready", seconds=(time.monotonic_ns() - int(sys.argv[4])) / 1e9,
        first=look_at(batch) if hasattr(batch, "shape") else None)
    for line in sys.stdin:
        seconds = float(line.split()[1])
        began, taken = time.perf_counter(), 0
        while taken <= JOB.depth or time.perf_counter() - began < JOB.warmup:
            next(source)
            taken += 1
        say("begin")
        pictures, began = 0, time.perf_counter()
        now = began
        while now - began < seconds:
            pictures += len(next(source))
            now = time.perf_counter()
        say("end", pictures=pictures, seconds=now - began)


if __name__ == "__main__":
    # What loaders print is not for the parent.
    OUT = os.dup(1)
    os.dup2(2, 1)
    main()
    sys.stderr.flush()
    os._exit(0)     # some loaders hang when they are taken down
