"""The rounds: every loader is started once and waits; then each in turn works for a slice, A B C, A B C, and the others rest."""
import time

from peerkit import proc
from peerkit.venvs import Failed


def settle(entry, limit=8.0):
    """Waits until the loader's queues are full and its processes are idle, so that it does not work in another's slice."""
    began, cpu = time.monotonic(), proc.cpu_seconds(entry.process.pid)
    while time.monotonic() - began < limit:
        time.sleep(0.1)
        now = proc.cpu_seconds(entry.process.pid)
        if now - cpu <= 0.01:
            return
        cpu = now


def start_all(entries, cores, pins, say):
    """{name: {"start": seconds, "slices": []}} of those that came up; each starts alone."""
    found = {}
    for entry in entries:
        if entry.failure:
            continue
        if cores > entry.mode.get("max_cores", cores):
            continue
        try:
            began = time.monotonic()
            found[entry.name] = {"start": entry.start(cores, pins), "slices": [], "command": entry.command}
            say(f"  {entry.name}: first batch after {time.monotonic() - began:.2f} s")
            settle(entry)
        except Failed as why:
            found[entry.name] = {"slices": []}
            fail(entry, found, why, say)
    return found


def fail(entry, results, why, say):
    """Out of the rounds on these cores; it is tried again on others."""
    results[entry.name]["failure"] = str(why)
    entry.stop()
    say(f"  {entry.name}: {why}")


def run(entries, cores, pins, rounds, seconds, say):
    """All rounds on these CPUs. Whatever happens, no process is left."""
    try:
        results = start_all(entries, cores, pins, say)
        idle = {}
        for number in range(rounds):
            for entry in entries:
                if entry.process is None:
                    continue
                before = proc.cpu_seconds(entry.process.pid)
                if entry.name in idle:
                    cpu, at = idle[entry.name]
                    results[entry.name]["idle"] = max(results[entry.name].get("idle", 0), (before - cpu) / (time.monotonic() - at))
                try:
                    found = entry.slice(seconds)
                except (Failed, BrokenPipeError) as why:
                    fail(entry, results, why, say)
                    continue
                results[entry.name]["slices"].append(found)
                settle(entry)
                idle[entry.name] = proc.cpu_seconds(entry.process.pid), time.monotonic()
            say(f"  round {number + 1} of {rounds}: " + ", ".join(
                f"{name} {found['slices'][-1]['rate']:.0f}" for name, found in results.items() if found["slices"]))
        return results
    finally:
        for entry in entries:
            entry.hang_up()
        for entry in entries:
            entry.stop()
