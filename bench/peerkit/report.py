"""The page that a run becomes: tables, what each loader was given, versions, commands, and what did not work."""
import pathlib
import platform
import re
import statistics

from peerkit import plot

YARD = "simplejpeg"


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*:\s*(.*)$", info, re.M)
    osr = pathlib.Path("/etc/os-release")
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', osr.read_text(), re.M).group(1) if osr.exists() else platform.system()
    memory = int(re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)) / 1024 ** 2
    flags = [f for f in ("avx2", "avx512_vbmi2") if re.search(rf"\b{f}\b", info)]
    cpus = len(re.findall("^processor", info, re.M))
    return (f"{name.group(1) if name else platform.machine()} ({', '.join(flags) or 'no AVX2'}), {cpus} CPUs, {memory:.0f} GiB, "
            f"Linux {platform.release().split('-')[0]}, {system}")


def median(values):
    return statistics.median(values) if values else None


def summary(found, yard):
    """Medians of one entry's slices, and its rates over the yardstick's, round by round."""
    rates = [s["rate"] for s in found["slices"]]
    ratios = [a["rate"] / b["rate"] for a, b in zip(found["slices"], yard)]
    return {"rate": median(rates), "low": min(rates), "high": max(rates), "ratios": ratios, "start": found["start"],
            "cpu": median([s["cpu_us"] for s in found["slices"]]), "held": max(s["held_mb"] for s in found["slices"]),
            "peak": max(s["peak_mb"] for s in found["slices"]), "idle": found.get("idle", 0)}


def summaries(data, cores):
    run = data["runs"][str(cores)]
    yard = run.get(YARD, {"slices": []})["slices"]
    return {name: summary(found, yard) for name, found in run.items() if found["slices"]}


def table(data, cores):
    rows = sorted(summaries(data, cores).items(), key=lambda item: -item[1]["rate"])
    lines = ["| loader | pictures/s | x simplejpeg | spread | CPU us a picture | memory, MB | peaks added, MB | first batch, s |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, s in rows:
        entry = data["entries"][name]
        title = (f"**{entry['title']}**" if name.startswith("headrace") else entry["title"]) + (" †" if entry["easier"] else "")
        ratio = (f"{median(s['ratios']):.2f}", f"{min(s['ratios']):.2f} .. {max(s['ratios']):.2f}") if s["ratios"] else ("", "")
        lines.append(f"| {title} | {s['rate']:,.0f} | {ratio[0]} | {ratio[1]} | {s['cpu']:,.0f} | {s['held']:,.0f} | {s['peak']:,.0f} | "
                     f"{s['start']:.2f} |")
    return lines


def output(first):
    if not first:
        return "decoded pictures"
    text = f"{'x'.join(map(str, first['shape']))} {first['dtype']}"
    return text + (f", mean {first['mean']:.2f}, deviation {first['std']:.2f}" if "mean" in first else "")


def entries_table(data):
    lines = ["| loader | what it is given | kB a picture | first batch | versions |", "|---|---|---:|---|---|"]
    for entry in data["entries"].values():
        if not entry["failure"]:
            versions = ", ".join(f"{k} {v}" for k, v in entry["versions"].items()) or f"headrace {data['headrace']}"
            title = entry["title"] + (" †" if entry["easier"] else "")
            lines.append(f"| {title} | {entry['given']} | {entry['kb']:.0f} | {output(entry['first'])} | {versions} |")
    return lines


def scaling(data):
    """How much more the second count of cores brought, as a sentence for each loader."""
    first, second = data["options"]["cores"][:2]
    one, two = summaries(data, first), summaries(data, second)
    found = [f"{two[n]['rate'] / one[n]['rate']:.2f} x in {data['entries'][n]['title']}" for n in two if n in one]
    return f"From {first} to {second} cores the rate becomes: " + "; ".join(found) + "." if found else ""


def commands(data):
    lines = ["```"]
    for cores, run in data["runs"].items():
        lines += [found["command"] for found in run.values() if found["slices"]]
    return lines + ["```"]


def introduction(data):
    facts, options = data["pictures"], data["options"]
    return [
        "# Photographs, beside other loaders", "",
        f"Made by `{options['command']}` with Headrace {data['headrace']} on {data['date']}. Machine: {data['machine']}.", "",
        f"{facts['pictures']} photographs ({', '.join(facts['folders'])}; mean {facts['mean_kb']:.1f} kB, {facts['mean_mpx']:.2f} Mpx, "
        f"{facts['progressive']} of them progressive; {facts['left_out']} left out that are no three-component JPEGs), "
        f"each {facts['copies']} times as a file of its own. Page cache hot; no pause between epochs, where a loader can do without.", "",
        f"Work: random resized crop to 224, flip, normalize -> f16 NCHW, batches of {options['batch']}. Every loader is pinned to the same "
        "cores together with its consumer, which takes batches and does nothing with them. All are started, one after the other, and wait "
        f"after their first batch. Then come {options['rounds']} rounds, in each of which every loader in turn works for "
        f"{options['seconds']:g} s, counted from when its queues ran dry, while the others rest. Medians. *x simplejpeg* is the ratio to "
        "full decoding alone, on the same cores in the same round, *spread* its extremes.", ""]


COLUMNS = [
    "†: less work, or other pixels, than the rest; see below.", "",
    "*CPU* is that of the whole tree of processes. *Memory* is what the tree holds in steady state, shared pages counted once; *peaks "
    "added* is the sum of what each process had at its peak, shared pages counted in each. *First batch* counts from the start of the "
    "process: the interpreter, imports and compilation are in it.", ""]


def against(data, cores, ours="headrace:avx512"):
    """Our rate over that of each other loader, round by round, as a sentence."""
    run = data["runs"][str(cores)]
    if not run.get(ours, {}).get("slices"):
        return []
    found = []
    for name, other in run.items():
        ratios = [a["rate"] / b["rate"] for a, b in zip(run[ours]["slices"], other["slices"])]
        if ratios and not name.startswith("headrace"):
            found.append((median(ratios), data["entries"][name]["title"]))
    ratios = "; ".join(f"{ratio:.1f} x {title}" for ratio, title in sorted(found))
    return [f"{data['entries'][ours]['title']} gives, round by round: {ratios}.", ""]


def page(data, picture=None):
    counts = [c for c in data["options"]["cores"] if data["runs"].get(str(c))]
    lines = introduction(data)
    if picture:
        lines += [f"![Pictures a second of each loader]({picture})", ""]
    for cores in counts:
        lines += [f"## {cores} core{'s' if cores > 1 else ''}", "", *table(data, cores), "", *against(data, cores)]
    if len(counts) > 1:
        lines += [scaling(data), ""]
    lines += [*COLUMNS, *notes(data), "## What each is given", "", *entries_table(data), ""]
    if failures(data):
        lines += ["## What did not run", "", *(f"- {line}" for line in failures(data)), ""]
    lines += ["## Commands", "", "`$CACHE` is the kit's cache folder, `$WORK` a temporary one, `$BUILD` the build folder.", "", *commands(data)]
    return "\n".join(lines) + "\n"


def failures(data):
    """A line for each loader that could not be prepared, did not start or stopped giving batches."""
    lines = [f"{e['title']}: {e['failure']}" for e in data["entries"].values() if e["failure"]]
    for cores, run in data["runs"].items():
        for name, found in run.items():
            if found.get("failure"):
                after = f" after {len(found['slices'])} rounds" if found["slices"] else ""
                title = f"{data['entries'][name]['title']}, {cores} core{'s' if cores != '1' else ''}"
                lines.append(f"{title}{after}: {found['failure']}")
    return lines


def notes(data):
    busy = [f"{data['entries'][n]['title']} {100 * s['idle']:.0f} %" for c in data["options"]["cores"] if data["runs"].get(str(c))
            for n, s in summaries(data, c).items() if s["idle"] > 0.02]
    return [f"Used CPU while they should have rested (of one core, at worst): {', '.join(busy)}.", ""] if busy else []


def picture(data):
    """The SVG of a run."""
    cores = data["options"]["cores"]
    bars = {}
    for count in cores:
        for name, s in summaries(data, count).items() if data["runs"].get(str(count)) else ():
            bars.setdefault(name, {})[count] = (s["rate"], s["low"], s["high"])
    rows = [(data["entries"][n]["title"], "ours" if n.startswith("headrace") else "yard" if n == YARD else "other", b)
            for n, b in bars.items()]
    rows.sort(key=lambda row: -row[2][min(row[2])][0])
    return plot.draw("Photographs a second", "random resized crop 224, flip, normalize, f16", rows, cores)
