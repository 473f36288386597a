"""Processes of one loader: its tree, the CPU that it used, the memory that it holds; and how all of it is ended."""
import os
import pathlib
import signal
import time

TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid):
    try:
        text = pathlib.Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2:].split()
    return {"parent": int(fields[1]), "cpu": sum(int(v) for v in fields[11:15]) / TICK}


def tree(root):
    """{pid: stat} of root and everything below it."""
    stats = {int(name): _stat(name) for name in os.listdir("/proc") if name.isdigit()}
    found, queue = {}, [root]
    while queue:
        pid = queue.pop()
        if stats.get(pid) and pid not in found:
            found[pid] = stats[pid]
            queue += [p for p, s in stats.items() if s and s["parent"] == pid]
    return found


def cpu_seconds(root):
    """Of the tree, with its children that are gone already."""
    return sum(s["cpu"] for s in tree(root).values())


def _lines(pid, name, keys):
    found = dict.fromkeys(keys, 0)
    try:
        for line in pathlib.Path("/proc", str(pid), name).read_text().splitlines():
            key = line.split(":")[0]
            if key in found:
                found[key] = int(line.split()[1])
    except OSError:
        pass
    return found


def memory_mb(root):
    """(what the tree holds, shared pages counted once; the sum of what each process held at its peak)"""
    pids = tree(root)
    return (sum(_lines(p, "smaps_rollup", ["Pss"])["Pss"] for p in pids) / 1024,
            sum(_lines(p, "status", ["VmHWM"])["VmHWM"] for p in pids) / 1024)


def _signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end(process, grace=3.0):
    """Ends a Popen and its tree; what does not go by itself within the grace period is killed."""
    pids = tree(process.pid)
    if process.stdin and not process.stdin.closed:
        try:
            process.stdin.close()
        except OSError:
            pass
    limit = time.monotonic() + grace
    while process.poll() is None and time.monotonic() < limit:
        time.sleep(0.02)
    pids.update(tree(process.pid))
    _signal([p for p, s in pids.items() if p != process.pid and _stat(p)], signal.SIGTERM)
    if process.poll() is None:
        process.kill()
    process.wait()
    time.sleep(0.05)
    _signal([p for p in pids if p != process.pid and _stat(p)], signal.SIGKILL)


def cores(count, wanted=None):
    """The CPUs to pin to: as told, else one of each physical core, as far as this process may use them."""
    allowed = sorted(os.sched_getaffinity(0))
    if wanted:
        allowed = [c for c in wanted if c in allowed]
    else:
        seen, first = set(), []
        for cpu in allowed:
            base = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
            try:
                place = (base / "physical_package_id").read_text(), (base / "core_id").read_text()
            except OSError:
                place = cpu
            if place not in seen:
                seen.add(place)
                first.append(cpu)
        allowed = first + [c for c in allowed if c not in first]
    return allowed[:count] if len(allowed) >= count else None
