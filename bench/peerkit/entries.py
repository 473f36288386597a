"""One entry of the comparison: a loader's file and one of its modes; how it is prepared and how its process is started."""
import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from peerkit import proc, venvs
from peerkit.venvs import Failed

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "peers"
CHILD = pathlib.Path(__file__).resolve().with_name("child.py")


def load(name):
    import importlib.util
    spec = importlib.util.spec_from_file_location("peer_" + name, FOLDER / (name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Entry:
    def __init__(self, peer, mode, context):
        self.peer, self.module, self.context = peer, load(peer), context
        self.mode = self.module.MODES[mode]
        self.name = peer + (":" + mode if mode else "")
        self.title, self.given = self.mode["title"], self.mode["given"]
        self.failure, self.python, self.versions, self.first, self.command = None, None, {}, None, []
        self.process = None

    # -- before --

    def job(self, cores):
        c = self.context
        depth = self.module.depth(cores) if hasattr(self.module, "depth") else getattr(self.module, "DEPTH", 1)
        return {"name": self.name.replace(":", "-"), "list": str(c.pictures.list), "dataset": str(self.dataset()),
                "batch": c.batch, "cores": cores, "seed": 7, "mode": self.mode, "depth": depth, "warmup": c.warmup,
                "work": str(c.work), **c.headrace}

    def dataset(self):
        return self.context.pictures.folder / f"{self.peer}-{self.mode.get('dataset') or self.name.split(':')[-1]}"

    def write_job(self, cores):
        path = self.context.work / f"{self.name.replace(':', '-')}-{cores}.json"
        path.write_text(json.dumps(self.job(cores)))
        return path

    def environment(self):
        env = dict(os.environ)
        if hasattr(self.module, "environment"):
            env.update(self.module.environment(self.job(1)))
        return env

    def lacking(self):
        """What this machine has not that the mode needs, or None."""
        return self.module.needs(self.mode) if hasattr(self.module, "needs") else None

    def prepare(self):
        """Installs, and makes the dataset when the loader has one of its own; Failed says why not."""
        if self.lacking():
            raise Failed(self.lacking())
        c = self.context
        try:
            self.python = pathlib.Path(sys.executable) if c.no_install else venvs.make(c.cache, self.module.VENV, c.say)
        except Failed as why:
            raise Failed(f"{why}{'; it needs ' + self.module.SYSTEM if hasattr(self.module, 'SYSTEM') else ''}") from None
        self.versions = venvs.versions(self.python, self.module.PACKAGES)
        if hasattr(self.module, "prepare"):
            self.make_dataset()

    def make_dataset(self):
        final, marker = self.dataset(), self.dataset() / "stamp"
        own = self.module.stamp(self.job(1)) if hasattr(self.module, "stamp") else ""
        stamp = f"{own}\n{inspect.getsource(self.module.prepare)}"
        if marker.exists() and marker.read_text() == stamp:
            return
        self.context.say(f"making the dataset of {self.name}")
        part = final.with_name(final.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(final, ignore_errors=True)
        part.mkdir(parents=True)
        path = self.context.work / "prepare.json"
        path.write_text(json.dumps({**self.job(1), "dataset": str(part)}))
        try:
            done = subprocess.run([self.python, CHILD, "prepare", FOLDER / (self.peer + ".py"), path], env=self.environment(),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
            if done.returncode:
                raise Failed("its dataset cannot be made: " + venvs.last_words(done.stderr))
            (part / "stamp").write_text(stamp)
            part.rename(final)
        except subprocess.TimeoutExpired:
            raise Failed("its dataset took more than half an hour to make") from None
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def kb(self):
        """Of a picture on disk, as this loader reads it."""
        folder = self.dataset() if hasattr(self.module, "prepare") else self.context.pictures.folder / "source"
        files = [p for p in folder.rglob("*") if p.is_file() and (folder.name == "source" or not p.is_symlink())]
        return sum(p.stat().st_size for p in files) / len(self.context.pictures.files) / 1000

    # -- running --

    def start(self, cores, pins):
        """Starts the process and waits for its first batch; seconds from the start to that."""
        path = self.write_job(cores)
        own = self.module.command(self.job(cores)) if hasattr(self.module, "command") else None
        command = own or [self.python, CHILD, "run", FOLDER / (self.peer + ".py"), path]
        self.command = [str(part) for part in ["taskset", "-c", ",".join(map(str, pins)), *command]]
        self.log = open(self.context.work / f"{self.name.replace(':', '-')}-{cores}.log", "w+")
        self.process = subprocess.Popen([*self.command, str(time.monotonic_ns())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, env=self.environment(), start_new_session=True)
        self.buffer = b""
        ready = self.expect("ready", self.context.timeout)
        self.first = ready["first"] or self.first
        return ready["seconds"]

    def expect(self, event, timeout):
        """The next line, which must be of that event."""
        import select
        limit = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = limit - time.monotonic()
            if left <= 0:
                raise Failed(f"gave no '{event}' within {timeout:.0f} s: {self.last_words()}")
            if select.select([self.process.stdout], [], [], left)[0]:
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    raise Failed(f"ended before its '{event}': {self.last_words()}")
                self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        found = json.loads(line)
        if found["event"] != event:
            raise Failed(f"said '{found['event']}' where '{event}' was expected")
        return found

    def last_words(self):
        self.log.flush()
        self.log.seek(0)
        return venvs.last_words(self.log.read())

    def slice(self, seconds):
        """Takes batches for so long: what came, and what it cost."""
        pid = self.process.pid
        self.process.stdin.write(f"go {seconds}\n".encode())
        self.process.stdin.flush()
        self.expect("begin", self.context.patience)
        cpu = proc.cpu_seconds(pid)
        end = self.expect("end", seconds + self.context.patience)
        cpu = proc.cpu_seconds(pid) - cpu
        held, peak = proc.memory_mb(pid)
        return {"rate": end["pictures"] / end["seconds"], "cpu_us": 1e6 * cpu / end["pictures"], "held_mb": held, "peak_mb": peak}

    def hang_up(self):
        """What waits for its turn ends by itself at this."""
        if self.process and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except OSError:
                pass

    def stop(self):
        if self.process:
            proc.end(self.process)
            self.process.stdout.close()
            self.log.close()
            self.process = None
