"""The command-line frame: help, manual pages, completions, wrong usage."""
import os
import pty
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = os.environ.get("HEADRACE_BIN", str(ROOT / "build" / "tools" / "headrace"))


def run(*args, **kw):
    return subprocess.run([BIN, *args], capture_output=True, text=True, timeout=60, **kw)


def commands():
    names, listing = [], False
    for line in run("help").stdout.splitlines():
        if line == "Commands:":
            listing = True
        elif listing and not line.strip():
            break
        elif listing and line[2] != " ":
            names.append(line.split()[0])
    return names


class Places(unittest.TestCase):
    def test_a_fifo_is_no_dataset_and_no_wait(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            for name in ("inspect", "verify", "init"):
                with self.subTest(name):
                    self.assertNotEqual(run(name, f"{folder}/fifo").returncode, 0)


class Progress(unittest.TestCase):
    def drawn(self, folder, term):
        """What synth writes to a terminal as standard error."""
        ours, theirs = pty.openpty()
        env = {k: v for k, v in os.environ.items() if k != "TERM"} | ({"TERM": term} if term else {})
        subprocess.run([BIN, "synth", f"{folder}/ds-{term}", "-n", "5"], stdout=subprocess.DEVNULL, stderr=theirs, env=env,
                       check=True, timeout=60)
        os.set_blocking(ours, False)
        os.close(theirs)
        try:
            return os.read(ours, 4096)
        except OSError:
            return b""
        finally:
            os.close(ours)

    def test_a_line_is_drawn_where_it_can_be_wiped(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex(self.drawn(folder, "xterm"), rb"records  \d+ records/s")
            for term in ("dumb", ""):
                self.assertEqual(self.drawn(folder, term), b"")


class Help(unittest.TestCase):
    def test_no_command_is_wrong_usage_and_shows_the_commands(self):
        r = run()
        self.assertEqual(r.returncode, 2)
        self.assertIn("Commands:", r.stderr)
        self.assertEqual(r.stdout, "")

    def test_version(self):
        r = run("--version")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stdout, r"^headrace \d+\.\d+\.\d+\n$")

    def test_every_command_explains_itself(self):
        for name in commands():
            with self.subTest(name):
                r = run(name, "--help")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertTrue(r.stdout.startswith(f"usage: headrace {name} "))
                self.assertIn("\nExit codes:\n", r.stdout)
                self.assertIn("\nExample:\n", r.stdout)
                example = r.stdout.split("\nExample:\n")[1].split("\n\n")[0].splitlines()
                self.assertTrue(all(line.startswith("  headrace ") or line.startswith("  taskset ") for line in example), example)
                self.assertEqual(r.stdout, run("help", name).stdout)
                self.assertLessEqual(max(map(len, r.stdout.splitlines())), 100)

    def test_manual_pages_are_clean_roff(self):
        tool = shutil.which("groff")
        if not tool:
            self.skipTest("no groff here")
        for args in [[]] + [[n] for n in commands()]:
            with self.subTest(args):
                page = run("help", "--man", *args).stdout
                r = subprocess.run([tool, "-man", "-Tascii", "-ww", "-z"], input=page,
                                   capture_output=True, text=True)
                self.assertEqual(r.stderr, "")

    def test_completion_scripts_parse(self):
        for shell in ["bash", "zsh", "fish"]:
            with self.subTest(shell):
                r = run("completions", shell)
                self.assertEqual(r.returncode, 0)
                if not shutil.which(shell):
                    continue
                check = subprocess.run([shell, "-n"], input=r.stdout, capture_output=True, text=True)
                self.assertEqual(check.stderr, "")

    def test_bash_completes_commands_and_options(self):
        script = run("completions", "bash").stdout + (
            '\nCOMP_WORDS=(headrace he) COMP_CWORD=1; _headrace; echo "${COMPREPLY[*]}"'
            '\nCOMP_WORDS=(headrace help --ma) COMP_CWORD=2; _headrace; echo "${COMPREPLY[*]}"')
        r = subprocess.run(["bash"], input=script, capture_output=True, text=True)
        self.assertEqual(r.stdout.splitlines(), ["help", "--man"], r.stderr)


class WrongUsage(unittest.TestCase):
    def wrong(self, args, words):
        r = run(*args)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertEqual(r.stdout, "")
        self.assertIn(words, r.stderr)

    def test_unknown_command_names_the_nearest(self):
        self.wrong(["hlep"], "did you mean 'help'")

    def test_unknown_command_without_a_near_one(self):
        self.wrong(["zzzzzzzz"], "--help")

    def test_unknown_option_names_the_nearest(self):
        self.wrong(["help", "--mna"], "did you mean --man?")

    def test_unknown_letter(self):
        self.wrong(["help", "-Z"], "unknown option -Z")

    def test_value_for_a_flag(self):
        self.wrong(["help", "--man=yes"], "takes no value")

    def test_missing_argument(self):
        self.wrong(["completions"], "SHELL is missing")

    def test_one_argument_too_many(self):
        self.wrong(["help", "help", "more"], "'more' is one argument too many")

    def test_after_two_dashes_all_are_arguments(self):
        self.wrong(["help", "--", "--man"], "no command '--man'")

    def test_options_that_would_do_nothing(self):
        for args, words in [(["inspect", "d", "3", "--out", "x"], "--out goes with --extract"),
                            (["inspect", "d", "--raw"], "--raw goes with --extract"),
                            (["inspect", "d", "3", "--records", "0:2"], "not both"),
                            (["inspect", "d", "--records", "0:2", "--extract", "image", "-o", "-"], "not both"),
                            (["inspect", "d", "3", "--versions"], "takes no record"),
                            (["versions", "d", "--force"], "--force goes with")]:
            self.wrong(args, words)

    def test_options_that_messages_and_pages_name_are_there(self):
        pages = {name: run(name, "--help").stdout for name in commands()}
        known = {option for page in pages.values() for option in re.findall(r"--[a-z][\w-]*", page)}
        foreign = {"--ulimit", "--user", "--target", "--prefix"}  # docker's and pip's
        for path in [*ROOT.glob("src/**/*.c"), *ROOT.glob("shards/*.c"), *ROOT.glob("decoders/**/*.c"),
                     *ROOT.glob("tools/**/*.c"), *ROOT.glob("python/**/*.py")]:
            for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', path.read_text()):
                self.assertLessEqual(set(re.findall(r"--[a-z][\w-]+", text)), known | foreign, (path, text))
        for path in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]:
            for name, rest in re.findall(r"headrace (\w+)([^`\n|;&]*)", path.read_text()):
                for option in re.findall(r"--[a-z][\w-]+", rest) if name in pages else []:
                    self.assertIn(option, pages[name], path)

    def test_unknown_shell(self):
        self.wrong(["completions", "tcsh"], "one of: bash, zsh, fish")

    def test_closed_standard_output_is_a_failure(self):
        with open("/dev/full", "w") as full:
            r = subprocess.run([BIN, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(r.returncode, 3)
        self.assertIn("No space left", r.stderr)


if __name__ == "__main__":
    unittest.main()
