"""What tests of the whole system share: the real binary and client, datasets that are made once, sidecars
on a socket, checksums of what was delivered, and facts of a process from /proc.

Importing it points HEADRACE_BIN and HEADRACE_LIB at the build (unless they are set) and makes `headrace`
importable."""
import atexit
import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build"))
BIN = os.environ.setdefault("HEADRACE_BIN", str(BUILD / "tools" / "headrace"))
os.environ.setdefault("HEADRACE_LIB", str(BUILD / "src" / "client" / "libheadrace.so"))
for _name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
    os.environ.pop(_name, None)
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402

import headrace  # noqa: E402

SCRATCH = Path(tempfile.mkdtemp(prefix="headrace-feed-"))
SCRATCH.chmod(0o755)  # for tests under another user
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


def shared():
    """The folder with data that is not part of the repository, or None."""
    for place in (os.environ.get("HR_SHARED"), ROOT.parent / "shared", ROOT.parent.parent / "shared"):
        if place and (Path(place) / "data").is_dir():
            return Path(place)
    return None


def run(*args, code=0, **kw):
    r = subprocess.run([BIN, *map(str, args)], **{"capture_output": True, "text": True, "timeout": 120, **kw})
    assert code is None or r.returncode == code, (args, r.returncode, r.stdout[-500:], r.stderr[-2000:])
    return r


@functools.lru_cache(maxsize=None)
def synth(kind, records, *more):
    """Path of a made-up dataset; one and the same for the same arguments."""
    path = SCRATCH / "-".join(map(str, (kind, records, *more, "hrd"))).replace("/", "_")
    run("synth", path, "--kind", kind, "-n", records, "-q", *more)
    return path


@functools.lru_cache(maxsize=None)
def pack(name, *args):
    """Path of the dataset that `pack ARGS` makes."""
    path = SCRATCH / f"{name}.hrd"
    run("pack", "-q", *args, path)
    return path


def conf(dataset, **keys):
    return {"dataset": str(dataset), **keys}


IMAGE = {"image": {"ops": [{"resize": 72}, {"center_crop": 64}]}, "label": None}


def small(records=64, **keys):
    """A pipeline of small pictures."""
    return conf(synth("images", records, "--width", 96, "--height", 80),
                **{"batch": 8, "fields": IMAGE, **keys})


def write_conf(path, keys):
    path = Path(path)
    path.write_text(json.dumps(keys))
    return path


def value_bytes(value):
    if isinstance(value, headrace.Ragged):
        parts = [value.values.tobytes(), np.diff(value.offsets).tobytes()]
        if value.shapes is not None:
            parts.append(value.shapes.tobytes())
        return b"".join(parts)
    return np.ascontiguousarray(value).tobytes()


def digest(batch):
    """One number for everything that a batch delivers: ids, validity, every field."""
    h = hashlib.sha256(batch.records.tobytes() + batch.valid.tobytes())
    for name in batch:
        h.update(name.encode() + value_bytes(batch[name]))
    return h.hexdigest()[:24]


def take(loader, count):
    """(epoch, step, digest) of the next `count` batches, over the ends of epochs."""
    rows = []
    while len(rows) < count:
        before = len(rows)
        for batch in loader:
            rows.append((batch.epoch, batch.step, digest(batch)))
            if len(rows) == count:
                break
        if len(rows) == before:
            break
    return rows


class Sidecar:
    """`headrace serve` on a socket, started and ready."""

    count = 0

    def __init__(self, keys, *args, path=None, binary=BIN, start=True, env=None):
        Sidecar.count += 1
        self.path = str(path or SCRATCH / f"s{Sidecar.count}")
        self.conf = write_conf(SCRATCH / f"s{Sidecar.count}.json", keys)
        self.argv = [binary, "serve", str(self.conf), "--socket", self.path, *map(str, args)]
        self.log = SCRATCH / f"s{Sidecar.count}.log"
        self.process, self.env = None, {**os.environ, **(env or {})}
        if start:
            self.start()

    @property
    def address(self):
        return "unix:" + self.path

    @property
    def pid(self):
        return self.process.pid

    @property
    def engine(self):
        """The process that does the work: the supervisor's child."""
        return (children(self.pid) or [self.pid])[0]

    def start(self, ready=True):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=self.env)
        if ready:
            line = self.process.stdout.readline()
            assert line.startswith("ready unix:"), self.log.read_text()
        return self

    def alive(self):
        return self.process.poll() is None

    def kill(self, sig=signal.SIGKILL):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdout.close()


def trainer(script, *args, **kw):
    """A Python process with headrace and this module at hand."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests' / 'lib'}", **kw.pop("env", {})}
    return subprocess.Popen([sys.executable, "-c", script, *map(str, args)],
                            **{"stdout": subprocess.PIPE, "text": True, "env": env, **kw})


# ---- facts of a process ----


def _helps_multiprocessing(pid):
    """Its fork server and resource tracker live as long as this process."""
    try:
        return b"multiprocessing." in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def children(pid=None):
    pid = pid or os.getpid()
    try:
        pids = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [p for p in pids if not _helps_multiprocessing(p)]


def gone(pid):
    """True when the process is no more (or waits to be reaped)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def status(pid, key):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise KeyError(key)


def rss_kb(pid):
    return status(pid, "VmRSS")


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid):
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def threads(pid):
    return status(pid, "Threads")


def eventually(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())
