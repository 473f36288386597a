"""headrace doctor: what it reports of this machine, and of one with limits."""
import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ.get("HEADRACE_BIN", str(ROOT / "build" / "tools" / "headrace"))


def run(*args, env=None, **kw):
    env = {**os.environ, **(env or {})}
    return subprocess.run([BIN, "doctor", *args], capture_output=True, text=True, timeout=60,
                          env=env, **kw)


def rows(*args, **kw):
    r = run("--json", *args, **kw)
    report = json.loads(r.stdout)
    return report, {c["name"]: c for c in report["checks"]}


class Doctor(unittest.TestCase):
    def test_table_has_a_status_a_row_and_ends_with_the_verdict(self):
        r = run()
        lines = r.stdout.splitlines()
        self.assertIn("feedable", lines[-1])
        self.assertEqual(r.returncode, 0 if lines[-1].startswith("feedable") else 1)
        for line in lines[:-2]:
            if not line.startswith(" "):
                self.assertIn(line.split()[0], ("ok", "warn", "bad"))

    def test_json_agrees_with_the_kernel(self):
        report, checks = rows()
        self.assertEqual(checks["kernel"]["facts"]["release"], os.uname().release)
        self.assertEqual(checks["open files"]["facts"]["soft"],
                         resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.assertEqual(checks["cores"]["facts"]["affinity"], len(os.sched_getaffinity(0)))
        shm = os.statvfs("/dev/shm")
        self.assertEqual(checks["/dev/shm"]["facts"]["bytes"], shm.f_blocks * shm.f_frsize)
        worst = max(("ok", "warn", "bad").index(c["status"]) for c in checks.values())
        self.assertEqual(report["verdict"], ("ok", "warn", "bad")[worst])

    def test_every_warning_says_what_to_change(self):
        env = {"HEADRACE_CPU": "c"}
        _, checks = rows(env=env)
        self.assertEqual(checks["simd"]["status"], "warn")
        for check in checks.values():
            if check["status"] != "ok":
                self.assertTrue(check.get("fix"), check)

    def test_control_group_limits_are_seen(self):
        with tempfile.TemporaryDirectory() as d:
            Path(d, "cpu.max").write_text("100000 100000\n")
            Path(d, "memory.max").write_text("100000000\n")
            Path(d, "memory.current").write_text("1000000\n")
            r = run("--json", env={"HEADRACE_CGROUP_ROOT": d})
            checks = {c["name"]: c for c in json.loads(r.stdout)["checks"]}
        self.assertEqual(checks["cores"]["facts"]["usable"], 1)
        self.assertEqual(checks["cores"]["status"], "warn")
        self.assertEqual(checks["memory"]["facts"]["cgroup_limit_bytes"], 100000000)
        self.assertEqual(checks["memory"]["status"], "bad")
        self.assertEqual(r.returncode, 1)

    def test_path_is_tried(self):
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"x" * 10000)
            f.flush()
            _, checks = rows(f.name)
        self.assertEqual(checks["storage"]["status"], "ok")
        self.assertIn("direct", checks["storage"]["facts"])
        r = run(f.name)
        self.assertEqual(r.returncode, 1)
        self.assertIn("No such file", r.stdout)


if __name__ == "__main__":
    unittest.main()
