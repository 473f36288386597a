"""Runs every fuzzer of a build for a short while, two at a time, from the corpus in the source tree, and
writes what came of it as meson would, for summary.py. A finding fails: a crash, an input that takes longer
than ten seconds (twice, since machines pause), too much memory, or hardly any executions."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS, JOBS, LEAST_EXECUTIONS = 20, 2, 200
LIMITS = ["-rss_limit_mb=1024", "-timeout=10"]
TIMEOUT_EXIT = 70
SOURCE = pathlib.Path(__file__).resolve().parent.parent / "fuzz"


def run(binary, arguments, scratch, seconds):
    done = subprocess.run([binary, *LIMITS, f"-artifact_prefix={scratch}/", *arguments], env=os.environ | {"TMPDIR": scratch},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, errors="replace")
    return done.returncode, done.stdout


def was_a_pause(binary, scratch):
    """Whether the input that took too long is fast when it is tried again."""
    inputs = [str(path) for path in pathlib.Path(scratch).glob("timeout-*")]
    return bool(inputs) and run(binary, inputs, scratch, 120)[0] == 0


def fuzz(binary):
    name = binary.name.removeprefix("fuzz_")
    scratch = tempfile.mkdtemp(prefix="fuzz-")
    found, dictionary = pathlib.Path(scratch, "found"), SOURCE / f"{name}.dict"
    found.mkdir()
    words = [f"-dict={dictionary}"] if dictionary.exists() else []
    try:
        code, text = run(binary, [f"-max_total_time={SECONDS}", "-print_final_stats=1", *words, str(found),
                                  str(SOURCE / "corpus" / name)], scratch, 10 * SECONDS)
        if code == TIMEOUT_EXIT and was_a_pause(binary, scratch):
            code, text = 0, text + "\nthe input that took too long did not when it was tried again"
        counted = re.search(r"number_of_executed_units:\s*(\d+)", text)
        executions = int(counted[1]) if counted else 0
        if code == 0 and executions < LEAST_EXECUTIONS:
            code, text = 1, text + f"\nonly {executions} executions in {SECONDS} s"
    except subprocess.TimeoutExpired as why:
        code, text = 1, str(why)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {"name": binary.name, "result": "OK" if code == 0 else "FAIL", "stdout": text}


def main(build, results):
    binaries = sorted(p for p in build.glob("fuzz_*") if p.is_file())
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        rows = list(pool.map(fuzz, binaries))
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        print(f"{row['name']}: {row['result']}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
