"""A steady trainer makes no system call that grows with what it is fed, and spends no time on bytes."""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

MOVES_BYTES = {"read", "pread64", "readv", "preadv", "recvfrom", "recvmsg", "recvmmsg", "write", "pwrite64", "sendto",
               "sendmsg", "process_vm_readv", "splice", "mremap", "mmap", "munmap", "brk", "madvise"}

STEADY = """
import json, os, sys, feed, headrace
keys, count = json.loads(sys.argv[1]), int(sys.argv[2])
address = sys.argv[3]
with headrace.Loader(address) as loader:
    seen = 0
    while seen < count:
        for batch in loader:
            x = batch["image"]
            seen += 1
            if seen == count:
                break
    print(seen, x.shape)
"""


def syscalls(sidecar, keys, count, tmp_path):
    """name -> calls of a whole trainer that takes `count` batches."""
    out = tmp_path / f"trace{count}"
    env = {**feed.os.environ, "PYTHONPATH": f"{feed.ROOT / 'python'}:{feed.ROOT / 'tests' / 'lib'}"}
    r = subprocess.run(["strace", "-f", "-c", "-o", out, sys.executable, "-c", STEADY, json.dumps(keys), str(count),
                        sidecar.address], capture_output=True, text=True, env=env, timeout=120)
    if "PTRACE" in r.stderr or "ptrace" in r.stderr:
        pytest.skip(f"strace may not trace here: {r.stderr.strip()[:100]}")
    assert r.returncode == 0, r.stderr
    calls = {}
    for line in out.read_text().splitlines():
        m = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
        if m and m[2] != "total":
            calls[m[2]] = int(m[1])
    return calls


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace here")
def test_system_calls_do_not_grow_with_batches(tmp_path):
    keys = feed.small(slots=8)
    with feed.Sidecar(keys) as sidecar:
        few, many = (syscalls(sidecar, keys, n, tmp_path) for n in (200, 2200))
    grown = {name: many[name] - few.get(name, 0) for name in many if many[name] > few.get(name, 0)}
    print(f"2,000 more batches: {grown}")
    # Waiting (futex, and a look at the socket after each slice) and waking the sidecar depend on who is faster:
    # an eventfd write of eight bytes.
    assert sum(n for name, n in grown.items() if name in MOVES_BYTES - {"write"}) < 100, grown
    assert grown.get("write", 0) <= 2000 + 50, grown
    assert set(grown) - MOVES_BYTES <= {"futex", "poll", "ppoll", "clock_nanosleep", "rt_sigaction", "getpid",
                                        "newfstatat", "fstat", "lseek", "openat", "close", "ioctl", "getdents64",
                                        "sched_yield"}, grown
    for name in ("openat", "close", "newfstatat", "fstat", "getdents64", "mmap", "munmap"):
        assert grown.get(name, 0) < 100, grown


COST = """
import json, sys, time, feed, headrace
keys, count = json.loads(sys.argv[1]), int(sys.argv[2])
with headrace.Loader(keys) as loader:
    best = []
    for round in range(6):
        begin, seen = time.thread_time(), 0
        while seen < count:
            for batch in loader:
                x = batch["image"]
                seen += 1
                if seen == count:
                    break
        best.append((time.thread_time() - begin) / count)
    print(min(best), x.nbytes)
"""


def cost(keys, count=150):
    process = feed.trainer(COST, json.dumps(keys), count)
    out, _ = process.communicate(timeout=120)
    seconds, size = out.split()
    return float(seconds) * 1e6, int(size)


def test_the_trainer_s_time_does_not_grow_with_bytes():
    """Batches of 1 MB and of 38 MB, which nobody reads or decodes."""
    dataset = feed.synth("images", 512, "--width", 64, "--height", 48)

    def keys(side, dtype):
        return feed.conf(dataset, batch=128, slots=4, reader="nil", last="wrap",
                         fields={"image": {"ops": [{"resize": [side, side]}], "output": {"dtype": dtype}}})

    small, small_bytes = cost(keys(52, "u8"))
    large, large_bytes = cost(keys(158, "f32"))
    print(f"{small_bytes / 1e6:.2f} MB: {small:.0f} us of CPU a batch; {large_bytes / 1e6:.1f} MB: {large:.0f} us")
    assert large_bytes > 36 * small_bytes
    # A copy of 38 MB takes 4 ms and more. Larger batches come slower, so a wait with its wake-up is allowed for.
    assert large < small + 500


def test_a_trainer_maps_no_media_library():
    script = ("import json, sys, feed, headrace\n"
              "with headrace.Loader(json.loads(sys.argv[1])) as loader:\n"
              "    feed.take(loader, 10)\n"
              "    print(open('/proc/self/maps').read())\n")
    out, _ = feed.trainer(script, json.dumps(feed.small())).communicate(timeout=60)
    files = {line.split(None, 5)[5] for line in out.splitlines() if len(line.split(None, 5)) == 6}
    assert any("libheadrace" in f for f in files)
    for name in ("libav", "libsw", "jpeg", "spng", "webp", "liburing", "protobuf", "lz4", "fyaml", "archive"):
        assert not [f for f in files if name in Path(f).name], name


@pytest.mark.skipif(not shutil.which("ldd"), reason="no ldd here")
def test_the_client_library_needs_libc_only():
    out = subprocess.run(["ldd", feed.os.environ["HEADRACE_LIB"]], capture_output=True, text=True).stdout
    if "not a dynamic" in out or "asan" in out:
        pytest.skip("not a plain build")
    names = {line.split()[0].split("/")[-1] for line in out.splitlines() if line.strip()}
    assert all(re.match(r"(linux-vdso|libc\.|libm\.|libpthread|ld-linux)", n) for n in names), names
