"""Runs commands where less is allowed: io_uring refused, not root under a read-only root with little
locked memory and a small /dev/shm, one core by control group.

    with sandbox.no_uring() as box:
        box.run([BIN, "doctor"])

What this machine cannot set up raises unittest.SkipTest with the reason.
"""
import contextlib
import errno
import os
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build"))
NO_URING = str(BUILD / "tests" / "lib" / "no_uring")
NOBODY = 65534


class Box:
    """A way to run commands: `wrap` turns an argv into the one to start, `env` is added."""

    def __init__(self, wrap, env=None, about=""):
        self.wrap, self.env, self.about = wrap, env or {}, about

    def _prepare(self, argv, kw):
        kw["env"] = {**(kw.get("env") or os.environ), **self.env}
        return self.wrap([str(a) for a in argv])

    def run(self, argv, **kw):
        argv = self._prepare(argv, kw)
        return subprocess.run(argv, **{"capture_output": True, "text": True, "timeout": 120, **kw})

    def popen(self, argv, **kw):
        argv = self._prepare(argv, kw)
        return subprocess.Popen(argv, **kw)


def _check(box, what):
    """Skips unless a trivial command runs in the box."""
    try:
        r = box.run(["true"])
    except OSError as e:
        raise unittest.SkipTest(f"{what}: {e}")
    if r.returncode != 0:
        raise unittest.SkipTest(f"{what}: {r.stderr.strip() or r.returncode}")
    return box


@contextlib.contextmanager
def no_uring(refusal=errno.EPERM, call="setup"):
    if not os.access(NO_URING, os.X_OK):
        raise unittest.SkipTest(f"{NO_URING} is not built")
    box = Box(lambda argv: [NO_URING, str(refusal), call, *argv], about=f"io_uring_{call} refused")
    yield _check(box, "seccomp filter")


def _reveal(paths):
    """Shell lines that make paths reachable which lie below a folder that only root may search: the
    folder is replaced by one that holds nothing else."""
    hidden = {}
    for path in sorted({Path(p).resolve() for p in paths}):
        closed = [a for a in reversed(path.parents) if not a.stat().st_mode & 0o001]
        if closed and not any(path.is_relative_to(p) for p in hidden.get(closed[0], ())):
            hidden.setdefault(closed[0], []).append(path)
    lines = []
    for folder, inside in hidden.items():
        lines += [f"mount --bind {shlex.quote(str(folder))} /mnt",
                  f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(folder))}"]
        for path in inside:
            target, source = shlex.quote(str(path)), shlex.quote(str("/mnt" / path.relative_to(folder)))
            lines += [f"mkdir -p {target}", f"mount --bind {source} {target}"]
        lines += ["umount -l /mnt"]
    return lines


@contextlib.contextmanager
def confined(writable=(), shm_bytes=64 << 20, memlock_bytes=8 << 20, visible=()):
    """uid 65534, no privileges, a read-only root, /dev/shm and locked memory as small as containers
    have them. `writable` folders stay writable (and are given to that user); `visible` folders can be
    reached also where the way to them is root's alone."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("a mount namespace needs root")
    for tool in ("unshare", "setpriv", "prlimit"):
        if not shutil.which(tool):
            raise unittest.SkipTest(f"no {tool} here")
    steps = ["set -e", "mount --make-rprivate /",
             f"mount -t tmpfs -o size={shm_bytes},mode=1777 tmpfs /dev/shm"]
    for folder in map(str, writable):
        os.chown(folder, NOBODY, NOBODY)
        steps += [f"mount --bind {shlex.quote(folder)} {shlex.quote(folder)}"]
    steps += _reveal(visible)
    steps += ["mount -o remount,bind,ro /",
              f"exec prlimit --memlock={memlock_bytes}:{memlock_bytes} setpriv --reuid {NOBODY} "
              f"--regid {NOBODY} --clear-groups --no-new-privs --inh-caps=-all "
              '--bounding-set=-all -- "$@"']
    script = "\n".join(steps)
    box = Box(lambda argv: ["unshare", "-m", "sh", "-c", script, "sh", *argv],
              env={"HOME": "/nonexistent"}, about="not root, read-only root")
    yield _check(box, "mount namespace")


def _make_group():
    """A control group of one core: its folder and the file that takes a process, or None."""
    name = f"headrace-test-{os.getpid()}"
    for mount, limit, text in (("/sys/fs/cgroup", "cpu.max", "100000 100000"),
                               ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
                               ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "100000")):
        folder = Path(mount, name)
        if not os.path.exists(f"{mount}/cgroup.procs"):
            continue
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(text)
            return folder
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
    return None


@contextlib.contextmanager
def one_core():
    """One core of CPU time: a real control group where they can be made, else a folder that looks
    like one, which Headrace reads (HEADRACE_CGROUP_ROOT) but no kernel enforces."""
    group = _make_group()
    if group:
        script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        try:
            yield _check(Box(lambda argv: ["sh", "-c", script, "sh", *argv],
                             about="control group"), "control group")
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        Path(folder, "cpu.max").write_text("100000 100000\n")
        yield Box(lambda argv: argv, env={"HEADRACE_CGROUP_ROOT": folder},
                  about="a folder that looks like a control group")
