"""The sandboxes confine as they say, and doctor sees each of them."""
import errno
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ.get("HEADRACE_BIN", str(ROOT / "build" / "tools" / "headrace"))
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import sandbox  # noqa: E402


def doctor(box):
    r = box.run([BIN, "doctor", "--json"])
    assert r.stdout, r.stderr
    return {c["name"]: c for c in json.loads(r.stdout)["checks"]}


class Sandboxes(unittest.TestCase):
    def test_refused_io_uring_is_seen_with_its_cause(self):
        for refusal in (errno.EPERM, errno.ENOSYS):
            for call in ("setup", "enter", "register"):
                with self.subTest(call=call, refusal=refusal), \
                        sandbox.no_uring(refusal, call) as box:
                    row = doctor(box)["io_uring"]
                    self.assertEqual(row["status"], "warn", row)
                    self.assertIn("seccomp", row["found"])
                    self.assertEqual(row["facts"]["errno"], refusal)

    def test_confined_process_is_nobody_under_a_read_only_root(self):
        with tempfile.TemporaryDirectory() as d, sandbox.confined(writable=[d]) as box:
            r = box.run(["sh", "-c", f"id -u; ulimit -l; touch /etc/x || echo ro; touch {d}/x && "
                                     "echo rw; df -k /dev/shm | tail -1"])
            lines = r.stdout.splitlines()
            self.assertEqual(lines[:4], ["65534", "8192", "ro", "rw"], r.stderr)
            self.assertEqual(lines[4].split()[1], str(64 * 1024))

    def test_doctor_runs_confined(self):
        with sandbox.confined() as box:
            if box.run(["test", "-x", BIN]).returncode:
                self.skipTest(f"uid 65534 cannot reach {BIN}")
            checks = doctor(box)
            self.assertEqual(checks["/dev/shm"]["facts"]["bytes"], 64 << 20)
            self.assertEqual(checks["memlock"]["facts"]["limit_bytes"], 8 << 20)
            self.assertFalse(checks["memlock"]["facts"]["privileged"])
            self.assertEqual(checks["memfd"]["status"], "ok")

    def test_one_core_is_one_core(self):
        with sandbox.one_core() as box:
            self.assertEqual(doctor(box)["cores"]["facts"]["usable"], 1, box.about)


if __name__ == "__main__":
    unittest.main()
