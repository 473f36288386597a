"""Style rules as tests: what a reviewer would otherwise have to say again and again."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = [ROOT / name for name in subprocess.run(
    ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()]
C_FILES = [f for f in FILES if f.suffix in (".c", ".h")]
TEXT = [f for f in FILES if f.suffix in (".c", ".h", ".py", ".md", ".yaml", ".yml", ".build", ".proto", ".sh", ".toml")
        or f.parent.name == "tools" and not f.suffix]


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def offences(files, pattern, skip=()):
    found = []
    for path in files:
        if path.relative_to(ROOT).as_posix() in skip or not path.exists():
            continue
        for number, line in enumerate(lines(path), 1):
            if re.search(pattern, line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    return found


def test_every_file_begins_with_its_job():
    bad = [str(f.relative_to(ROOT)) for f in C_FILES if not lines(f) or not lines(f)[0].startswith("/*")]
    assert not bad, bad


def test_no_include_steps_out_of_its_folder():
    assert not offences(C_FILES, r'#\s*include\s+"\.\./')


def test_no_typedef_of_structs():
    assert not offences(C_FILES, r"^\s*typedef\s+struct")


def test_no_tabs_and_no_trailing_space():
    assert not offences(TEXT, r"\t|[ \t]+$", skip=())


def test_lines_are_not_too_long():
    found = [f"{f.relative_to(ROOT)}:{n}" for f in C_FILES for n, line in enumerate(lines(f), 1) if len(line) > 120]
    assert not found, found


@pytest.mark.parametrize("call", ["malloc", "calloc", "realloc", "strdup", "free", "alloca", "gets", "sprintf", "strcpy", "strcat"])
def test_memory_goes_through_base(call):
    allowed = {"src/base/mem.c"}
    src = [f for f in C_FILES if f.relative_to(ROOT).parts[0] in ("src", "shards", "decoders", "tools")]
    assert not offences(src, rf"(?<![\w.>]){call}\s*\(", skip=allowed)


def test_headers_have_guards():
    bad = [str(f.relative_to(ROOT)) for f in C_FILES if f.suffix == ".h" and "#ifndef HR_" not in f.read_text()
           and "#ifndef HEADRACE_" not in f.read_text()]
    assert not bad, bad


def test_no_traces_of_a_machine():
    """No path of the machine that the tests run on, and no host of a package registry."""
    places = "|".join(re.escape(str(p)) + r"\b" for p in {ROOT, ROOT.parent, pathlib.Path.home()} if len(p.parts) > 1)
    assert not offences(TEXT, places)
    assert not offences(TEXT, r"//[\w.-]*(debian|ubuntu|pypi|pythonhosted)[\w-]*\.(org|com)")

def test_every_variable_of_the_environment_is_documented():
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    used = set()
    for f in FILES:
        if f.suffix in (".c", ".h", ".py") and f.exists():
            used |= set(re.findall(r'(?:getenv\(|environ\.get\(|environ\[|setdefault\()"((?:HEADRACE|HR|FAKE)_\w+)"',
                                   f.read_text(encoding="utf-8")))
    assert used and not [name for name in sorted(used) if f"`{name}`" not in page]


def test_links_in_pages_lead_somewhere():
    dead = []
    for f in FILES:
        if f.suffix == ".md" and f.exists():
            for target in re.findall(r"\]\(([^)#\s]+)", f.read_text(encoding="utf-8")):
                if "://" not in target and not (f.parent / target).exists():
                    dead.append(f"{f.relative_to(ROOT)}: {target}")
    assert not dead, dead


def test_pages_that_the_code_mentions_exist():
    dead = []
    for f in FILES:
        if f.suffix in (".c", ".h", ".py", ".build", ".yaml") and f.exists():
            for name in re.findall(r"\bdocs/[\w/-]+\.md\b", f.read_text(encoding="utf-8")):
                if not (ROOT / name).exists():
                    dead.append(f"{f.relative_to(ROOT)}: {name}")
    assert not dead, dead


def test_what_the_build_needs_is_set_up_and_explained():
    """Packages of tools/setup are those of dependency() lines; what only tests need is apart."""
    package = {"libfyaml": "libfyaml-dev", "liburing": "liburing-dev", "libjpeg": "libjpeg-dev", "liblz4": "liblz4-dev",
               "spng": "libspng-dev", "libwebp": "libwebp-dev", "libwebpdemux": "libwebp-dev", "json-c": "libjson-c-dev",
               "libprotobuf-c": "libprotobuf-c-dev", "lcms2": "liblcms2-dev", "cmocka": "libcmocka-dev"}
    build, tests = re.findall(r'(?s)^(?:build|tests)="(.*?)"', (ROOT / "tools/setup").read_text(encoding="utf-8"), re.M)[:2]
    needed = {False: set(), True: set()}
    for f in FILES:
        if f.name == "meson.build":
            for name in re.findall(r"dependency\('([\w-]+)'", f.read_text(encoding="utf-8")):
                if name != "threads":
                    needed["tests" in f.parts].add(package[name])
    assert needed[False] <= set(build.split()) and needed[True] <= set(build.split()) | set(tests.split())
    installed = {p for p in build.split() + tests.split() if p.startswith("lib") and not p.startswith(("libav", "libsw", "libxxhash"))}
    assert installed == needed[False] | needed[True]
