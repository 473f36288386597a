"""Adds up the results of meson tests (JSON lines) and pytest (JUnit XML), shows what failed and why
something was skipped, and prints the closing line. Exits 1 when anything failed or nothing ran."""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ET

PASSED, SKIPPED = {"OK", "EXPECTEDFAIL"}, {"SKIP"}


CMOCKA_LINE = re.compile(r"^\[\s*(OK|FAILED|SKIPPED|ERROR)\s*\] (\w+)$")
CMOCKA_KIND = {"OK": "passed", "FAILED": "failed", "ERROR": "failed", "SKIPPED": "skipped"}


def cmocka_rows(name, text):
    """One row a cmocka test; the reason of a skip is the line printed before it."""
    rows, before = {}, ""
    for line in text.splitlines():
        found = CMOCKA_LINE.match(line)
        if found:
            rows.setdefault(found[2], (f"{name}: {found[2]}", CMOCKA_KIND[found[1]], before))
            before = ""
        else:
            before += line + "\n"
    return list(rows.values())


def meson_rows(path):
    """Yields (name, 'passed' | 'failed' | 'skipped', output) of one meson testlog.json."""
    for line in path.read_text(errors="replace").splitlines():
        row = json.loads(line)
        result, name = row["result"], f"{path.stem}: {row['name'].split(':')[-1]}"
        kind = "passed" if result in PASSED else "skipped" if result in SKIPPED else "failed"
        text = (row.get("stdout") or "") + (row.get("stderr") or "")
        rows = cmocka_rows(name, row.get("stdout") or "")
        yield from rows
        # A crash, a time-out or a sanitizer's report shows in the exit code alone.
        if not rows or (kind == "failed" and not any(r[1] == "failed" for r in rows)):
            yield name, kind, text


def pytest_rows(path):
    """The same of one JUnit file."""
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"python: {case.get('classname')}.{case.get('name')}"
        for tag, kind in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
            node = case.find(tag)
            if node is not None:
                yield name, kind, node.get("message") or node.text or ""
                break
        else:
            yield name, "passed", ""


def main(folder):
    rows, broken = [], []
    for path in sorted(folder.glob("*.txt")):
        source = path.with_suffix(".json") if path.stem != "python" else path.with_suffix(".xml")
        try:
            found = list(pytest_rows(source) if source.suffix == ".xml" else meson_rows(source))
        except (OSError, ValueError, ET.ParseError) as why:
            found = []
            broken.append((path, why))
        if not found and not broken:
            broken.append((path, "no test ran"))
        rows += found
    for name, kind, text in rows:
        if kind == "skipped":
            reason = [line for line in text.splitlines() if "skip" in line.lower()] or text.splitlines()
            print(f"skipped {name}: {(reason or ['no reason given'])[0][:160]}")
    for name, kind, text in rows:
        if kind == "failed":
            print(f"FAILED {name}\n    " + "\n    ".join(text.splitlines()[-40:]))
    for path, why in broken:
        print(f"FAILED {path.stem}: {why}\n    " + "\n    ".join(path.read_text(errors='replace').splitlines()[-40:]))
    count = {kind: sum(row[1] == kind for row in rows) for kind in ("passed", "failed", "skipped")}
    count["failed"] += len(broken)
    tail = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{tail}")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
