"""Virtual environments, one for each set of packages that agree. Versions are fixed, so that two runs compare the same things."""
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = {
    "plain": ["simplejpeg==1.9.0", "numpy==2.4.6", "pillow==13.0.0"],
    "torch": ["torch==2.14.1", "torchvision==0.29.1", "numpy==2.1.3", "pillow==13.0.0", "webdataset==1.0.2", "mosaicml-streaming==0.13.0"],
    "ffcv": ["torch==2.13.0", "numpy==2.3.5", "numba==0.68.1", "pillow==13.0.0", "opencv-python==5.0.0.93", "ffcv==1.0.2"],
    "dali": ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"],
    "tensorflow": ["tensorflow-cpu==2.21.0"],
    "grain": ["grain==0.2.18", "opencv-python-headless==5.0.0.93", "numpy==2.4.6"],
    "spdl": ["spdl==0.8.0", "spdl-io==0.8.0", "numpy==2.4.6"],
}


class Failed(Exception):
    """What was wanted is not to be had here; the text says why, in a line or two."""


def last_words(text, count=2):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "rror" in line] or lines
    return " / ".join(line[:300] for line in telling[-count:]) or "no message"


def python_of(cache, name):
    return cache / "venvs" / name / "bin" / "python"


def make(cache, name, say):
    """The Python of that environment, made when it is not there or not as listed."""
    folder, wanted = cache / "venvs" / name, "\n".join(REQUIREMENTS[name]) + "\n"
    marker = folder / "requirements.txt"
    if marker.exists() and marker.read_text() == wanted:
        return python_of(cache, name)
    say(f"installing {name}: {' '.join(REQUIREMENTS[name])}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = cache / "venvs" / (name + ".log")
    try:
        with open(log, "w") as out:
            for command in ([sys.executable, "-m", "venv", folder],
                            [python_of(cache, name), "-m", "pip", "install", "--no-cache-dir", *REQUIREMENTS[name]]):
                if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode:
                    raise Failed(f"does not install: {last_words(log.read_text())}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    marker.write_text(wanted)
    return python_of(cache, name)


def versions(python, packages):
    """{package: version} as installed."""
    code = ("import sys, importlib.metadata as m\n"
            "for p in sys.argv[1:]:\n try: print(p, m.version(p))\n except m.PackageNotFoundError: print(p, 'missing')")
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True)
    return dict(line.split() for line in done.stdout.splitlines())


def python_version(python):
    return subprocess.run([python, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True).stdout.strip()


def clean(cache):
    """Takes away what this kit made, and the folder when nothing else is in it."""
    for path in list(cache.glob("venvs")) + list(cache.glob("data-*")):
        shutil.rmtree(path, ignore_errors=True)
    if cache.exists() and not any(pathlib.Path(cache).iterdir()):
        cache.rmdir()
