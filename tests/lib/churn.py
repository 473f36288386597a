"""Trainers that come and go at random, for a while, on one sidecar: they leave cleanly, are killed while they hold
slots, stop reading, seek, break off in the middle of a hello; alone on their stream or several on a shared one. One
steady trainer has a stream of its own all the while. Every batch must have the records that the plan gives it.

Now and then everybody but the steady one leaves, and the facts of engine and supervisor are taken: memory,
descriptors, threads, and slots that are not free though nobody is there to hold them."""
import json
import os
import random
import signal
import socket
import time
from pathlib import Path

import feed
import headrace

BATCH = 24
WORLDS = (1, 2, 4, 8)
STEADY = (0, 3)  # rank, world
TICK_S = 0.5
REPLICAS = 3  # of a shared stream, at most
KINDS = ("leave", "leave", "kill", "kill", "stop", "seek", "hello")


def keys():
    # Each replica of a stream may hold two, of places of its own.
    return feed.small(records=240, batch=BATCH, slots=2 * REPLICAS + 1, last="drop")


def plan():
    """Records of each (epoch, step) of the first epochs."""
    with headrace.Loader(keys()) as loader:
        return {(b.epoch, b.step): b.records.tolist() for _ in range(12) for b in loader}


class Part:
    """What a trainer process does with its stream."""

    def __init__(self, address, want, rank, world, shared, rng):
        self.want, self.rank, self.world, self.rng = want, rank, world, rng
        self.loader = headrace.Loader(address, rank=rank, world=world, shared=shared, timeout=60)
        self.held = []

    def take(self, count, hold=1, pause=0.0):
        while count > 0:
            for batch in self.loader:
                share = BATCH // self.world
                want = self.want.get((batch.epoch, batch.step))
                if want and batch.records.tolist() != want[self.rank * share:(self.rank + 1) * share]:
                    raise AssertionError(f"epoch {batch.epoch} step {batch.step}: {batch.records.tolist()}")
                self.held = (self.held + [batch])[-hold:]
                batch = None
                time.sleep(pause)
                count -= 1
                if count == 0:
                    break

    def leave(self):
        self.take(self.rng.randrange(1, 12))
        self.loader.close()

    def kill(self):
        """Takes and holds until it is killed."""
        self.take(self.rng.randrange(1, 6), hold=2)
        time.sleep(60)

    def stop(self):
        self.take(2)
        time.sleep(self.rng.random())
        self.take(self.rng.randrange(1, 6))

    def seek(self):
        self.take(3)
        state = self.loader.state_dict()
        self.take(self.rng.randrange(1, 4))
        self.loader.load_state_dict(state)
        self.take(2)
        self.loader.set_epoch(self.rng.randrange(10))
        self.take(2)
        self.loader.load_state_dict({})
        self.take(1)


def hello(path, rng):
    """A peer that says nothing, rubbish, or a part of a hello, and is gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(path)
        if rng.random() < 0.8:
            peer.send(b"\1\0\0\0" + rng.randbytes(rng.randrange(1, 640)))
        time.sleep(rng.random() * 0.2)


def steady(address, want, report):
    """Reads on; tells its count of batches and its stream's slots every second."""
    part, batches, due = Part(address, want, *STEADY, False, None), 0, 0.0
    while True:
        part.take(1, pause=0.05)
        batches += 1
        if time.monotonic() >= due:
            due = time.monotonic() + 1
            slots = part.loader.stats()
            row = [batches, slots["leased"], feed.rss_kb("self"), feed.fds("self")]
            Path(report).with_suffix(".new").write_text(json.dumps(row))
            os.rename(Path(report).with_suffix(".new"), report)


class Churn:
    def __init__(self, sidecar, seed, folder, want):
        self.sidecar, self.random, self.folder, self.want = sidecar, random.Random(seed), Path(folder), want
        self.live = {}  # pid -> (kind, key, when to kill it)
        self.shared = {}  # (rank, world) -> as what it was opened last
        self.count = dict.fromkeys(KINDS, 0)
        self.fewest = 1 << 30  # descriptors of the engine with nobody there

    def fork(self, work, *args):
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            work(*args)
            code = 0
        except BaseException as e:
            (self.folder / f"error-{os.getpid()}").write_text(repr(e))
        os._exit(code)

    def part(self, kind, key, seed):
        rng = random.Random(seed)
        if kind == "hello":
            hello(self.sidecar.path, rng)
        else:
            getattr(Part(self.sidecar.address, self.want, *key, self.shared[key], rng), kind)()

    def start(self):
        """One more trainer, where there is room for one."""
        rng, kind = self.random, self.random.choice(KINDS)
        world = rng.choice(WORLDS)
        key = (rng.randrange(world), world)
        there = sum(k == key for kind_, k, _ in self.live.values() if kind_ != "hello")
        if kind != "hello":
            if there == REPLICAS or there and not self.shared[key]:
                return
            if not there:
                self.shared[key] = rng.random() < 0.4
        pid = self.fork(self.part, kind, key, rng.random())
        self.live[pid] = (kind, key, time.monotonic() + (0.6 * rng.random() if kind == "kill" else 60))
        self.count[kind] += 1

    def reap(self):
        now = time.monotonic()
        for pid, (kind, key, due) in list(self.live.items()):
            if now >= due:
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, 0 if now >= due else os.WNOHANG)
            if not done:
                continue
            del self.live[pid]
            error = self.folder / f"error-{pid}"
            said = error.read_text() if error.exists() else ""
            assert status == (signal.SIGKILL if kind == "kill" and not said else 0), (kind, key, status, said)

    def drain(self):
        """Waits until all have left."""
        while self.live:
            time.sleep(0.02)
            self.reap()

    def unfree(self, rank, world):
        """Slots of a stream that are neither ready nor free although nobody holds one."""
        with headrace.Loader(self.sidecar.address, rank=rank, world=world, shared=self.shared.get((rank, world), False),
                             timeout=60) as loader:
            left = []

            def back():
                stats = loader.stats()
                left[:] = [loader.slots - stats["ready"] - stats["free_slots"], stats["leased"]]
                return left == [0, 0]

            feed.eventually(back)
            return max(left)

    def facts(self):
        """[RSS kB, of these anonymous, descriptors, threads] of the engine, [RSS kB, descriptors] of the supervisor and
        slots that did not come back."""
        engine, supervisor = self.sidecar.engine, self.sidecar.pid
        lost = sum(self.unfree(*key) for key in list(self.shared))
        self.shared.clear()
        lost += self.unfree(0, 1)  # gives back the memory of the other worlds' streams
        fds = []
        feed.eventually(lambda: fds.append(feed.fds(engine)) or len(fds) > 5 and fds[-1] == fds[-6], 2)
        # The last ones may still be leaving; what was there before is what it has to come back to.
        self.fewest = min(*fds, self.fewest)
        feed.eventually(lambda: fds.append(feed.fds(engine)) or fds[-1] <= self.fewest)
        return [feed.rss_kb(engine), feed.status(engine, "RssAnon"), fds[-1], feed.threads(engine),
                feed.rss_kb(supervisor), feed.fds(supervisor), lost]

    def go(self, seconds, every, told):
        """Rows of [second, trainers so far, *facts, batches, leased, RSS kB, descriptors of the steady trainer]."""
        report, rows = self.folder / "steady", []
        steady_pid = self.fork(steady, self.sidecar.address, self.want, report)
        try:
            assert feed.eventually(report.exists, 60), list(self.folder.glob("error-*"))
            begin = due = time.monotonic()
            while time.monotonic() < begin + seconds or len(rows) < 4:
                for _ in range(self.random.randrange(1, 4)):
                    self.start()
                    time.sleep(0.1 * self.random.random())
                for _ in range(4):
                    time.sleep(TICK_S / 4 * self.random.random())
                    self.reap()
                if time.monotonic() >= due:
                    due = time.monotonic() + every
                    self.drain()
                    assert os.waitpid(steady_pid, os.WNOHANG) == (0, 0), list(self.folder.glob("error-*"))
                    rows.append([round(time.monotonic() - begin), sum(self.count.values()), *self.facts(),
                                 *json.loads(report.read_text())])
                    told(rows[-1])
            self.drain()
            return rows
        finally:
            for pid in (*self.live, steady_pid):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
