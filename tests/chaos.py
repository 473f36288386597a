"""Kills at random, and what must be the same all the same.

    tests/chaos.py --seed 1 --kills 200             trainers of one sidecar, on a socket
    tests/chaos.py --seed 1 --kills 50 --private    one trainer with a sidecar of its own
    tests/chaos.py --seed 1 --fault eio=0.05,noise=0.05,delay=5ms:0.1    failing storage on top

Trainers save their state every few batches. A driver kills (SIGKILL) engines, supervisors, trainers, or all of
them, starts again what nobody else starts again (trainers from the state that they saved last), and now and then
changes the number of ranks (1, 2, 4, 8) and of workers; with --replicas also that of trainers a rank, which share
a stream. Each trainer must get every batch from its state on, one after the other. In the end every batch that was
delivered, also the ones that were delivered twice, must have the records, pixels and order digest of an undisturbed
run, and none may be missing.
"""
import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

BATCH = 32
RECORDS = 1000
WORLDS = (1, 2, 4, 8)
SAVE_EVERY = 4
STALL_S = 90


def keys():
    fields = {"image": {"ops": [{"random_resized_crop": 48}, "hflip"]}, "label": None}
    # Each of three replicas holds one; those at different places hold different ones.
    return feed.small(records=RECORDS, batch=BATCH, fields=fields, slots=5)


def sample_digests(batch):
    images, labels = batch["image"], batch["label"]
    return [hashlib.blake2b(images[i].tobytes() + labels[i].tobytes(), digest_size=8).hexdigest()
            for i in range(batch.count)]


# ---- a trainer, in a process of its own ----


def train(address, rank, world, shared, state, log_path, state_path, pace):
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        loader = headrace.Loader(address, rank=rank, world=world, shared=shared, state=state, timeout=60)
        held = None
        while True:
            for batch in loader:
                # The batch before is still held: kills must not touch it.
                if held is not None and sample_digests(held[0])[:2] != held[1]:
                    raise AssertionError("a held batch changed")
                digests = sample_digests(batch)
                row = [batch.epoch, batch.step, batch.first, batch.records.tolist(), digests,
                       loader.state_dict()["order_digest"]]
                os.write(log, (json.dumps(row) + "\n").encode())
                held = (batch, digests[:2])
                if batch.step % SAVE_EVERY == 0:
                    Path(str(state_path) + ".new").write_text(json.dumps(loader.state_dict()))
                    os.rename(str(state_path) + ".new", state_path)
                batch = None
                time.sleep(pace)
    except BaseException as e:
        os.write(log, (json.dumps({"error": repr(e)}) + "\n").encode())
    os._exit(1)


class Trainer:
    def __init__(self, run, rank, replica):
        self.run, self.rank = run, rank
        self.state_path = run.folder / f"state-{run.phase}-{rank}-{replica}"
        self.start()

    def saved(self):
        try:
            return json.loads(self.state_path.read_text())
        except FileNotFoundError:
            return self.run.state

    def start(self):
        run = self.run
        run.logs += 1
        self.log_path, self.read_to, self.rest = run.folder / f"log-{run.logs}", 0, b""
        self.at = None  # (epoch, step) of the last batch
        state = self.saved()
        self.due = (state.get("epoch", 0), state.get("step", 0))
        args = (run.address(), self.rank, run.world, run.replicas > 1, state, self.log_path, self.state_path, run.pace)
        self.pid = os.fork()
        if self.pid == 0:
            train(*args)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.collect()

    def collect(self):
        """Takes over what it has logged since."""
        if not self.log_path.exists():
            return
        with open(self.log_path, "rb") as log:
            log.seek(self.read_to)
            data = log.read()
        self.read_to += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            row = json.loads(line)
            if isinstance(row, dict):
                raise SystemExit(f"chaos: rank {self.rank} of {self.run.world}: {row['error']}")
            self.at = (row[0], row[1])
            if self.at != self.due:
                raise SystemExit(f"chaos: rank {self.rank} of {self.run.world} got {self.at} instead of {self.due}")
            last = self.at[1] + 1 == RECORDS // BATCH
            self.due = (self.at[0] + 1, 0) if last else (self.at[0], self.at[1] + 1)
            self.run.add(row)


# ---- the run ----


class Run:
    def __init__(self, options, folder):
        self.options, self.folder = options, Path(folder)
        self.random = random.Random(options.seed)
        self.pace = 0.003
        self.state, self.phase, self.world, self.replicas, self.logs = {}, 0, 1, 1, 0
        self.delivered = {}  # (epoch, step) -> [(record, digest) or None] * BATCH
        self.count = {"engine": 0, "supervisor": 0, "trainer": 0, "all": 0}
        self.digests = {}  # (epoch, step) -> order digest after it
        self.batches = self.resizes = 0
        self.sidecar = None
        self.trainers = []

    def address(self):
        return keys() if self.options.private else self.sidecar.address

    def add(self, row):
        epoch, step, first, records, digests, order_digest = row
        if self.digests.setdefault((epoch, step), order_digest) != order_digest:
            raise SystemExit(f"chaos: epoch {epoch} step {step}: two order digests")
        self.batches += 1
        place = self.delivered.setdefault((epoch, step), [None] * BATCH)
        for i, value in enumerate(zip(records, digests)):
            if place[first + i] not in (None, value):
                raise SystemExit(f"chaos: epoch {epoch} step {step} sample {first + i}: {value}, and before "
                                 f"{place[first + i]}")
            place[first + i] = value

    def start_sidecar(self):
        workers = self.random.choice((1, 2, 3, 5))
        fault = ("--fault", self.options.fault) if self.options.fault else ()
        self.sidecar = feed.Sidecar(keys(), "--workers", workers, "--max-restarts", 1000, *fault,
                                    path=self.folder / "socket")

    def start_trainers(self):
        self.phase += 1
        if self.options.replicas:
            self.replicas = self.random.choice((1, 2, 3))
        self.trainers = [Trainer(self, rank, replica) for rank in range(self.world) for replica in range(self.replicas)]

    def shoot(self, pids):
        """True when there was one to kill."""
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False
        return bool(pids)

    def supervisors(self):
        return feed.children(self.trainers[0].pid) if self.options.private else [self.sidecar.pid]

    def kill_engine(self):
        return self.shoot([engine for pid in self.supervisors() for engine in feed.children(pid)])

    def kill_supervisor(self):
        if self.options.private:
            return self.shoot(self.supervisors())
        self.sidecar.__exit__()
        time.sleep(self.random.random() * 0.2)
        self.start_sidecar()
        return True

    def kill_trainer(self):
        trainer = self.random.choice(self.trainers)
        trainer.kill()
        trainer.start()
        return True

    def kill_all(self):
        for trainer in self.trainers:
            trainer.kill()
        if not self.options.private:
            self.kill_supervisor()
        for trainer in self.trainers:
            trainer.start()
        return True

    def resize(self):
        """Everybody stops; another number of ranks goes on from the earliest state."""
        for trainer in self.trainers:
            trainer.kill()
        self.state = min((t.saved() for t in self.trainers), key=lambda s: s.get("samples", 0))
        self.world = self.random.choice([w for w in WORLDS if w != self.world])
        self.resizes += 1
        self.start_trainers()

    def collect(self):
        for trainer in self.trainers:
            trainer.collect()

    def settle(self):
        """Waits until everybody has gone on, now and then: kills among the starting ones are worth something,
        but nothing else is no progress."""
        if self.random.random() < 0.4:
            return
        deadline = time.monotonic() + STALL_S
        goal = [None if t.at is None else tuple(t.at) for t in self.trainers]
        while any(t.at is None or t.at == g for t, g in zip(self.trainers, goal)):
            self.collect()
            if time.monotonic() > deadline:
                log = "" if self.options.private else self.sidecar.log.read_text()[-3000:]
                raise SystemExit(f"chaos: no progress in {STALL_S} s: {[t.at for t in self.trainers]}\n{log}")
            time.sleep(0.01)

    def disturb(self):
        until = time.monotonic() + self.options.seconds
        kinds = ["engine"] * 4 + ["supervisor"] * 3 + ["trainer"] * 3 + ["all"]
        while sum(self.count.values()) < self.options.kills and time.monotonic() < until:
            time.sleep(self.random.choice((0.02, 0.1, 0.3)) * self.random.random())
            kind = self.random.choice(kinds)
            self.count[kind] += getattr(self, "kill_" + kind)()
            self.collect()
            self.settle()
            if not self.options.private and self.random.random() < 0.15:
                self.resize()

    def finish(self):
        """Lets all ranks come to the same place."""
        self.collect()
        last = max(self.delivered)
        deadline = time.monotonic() + STALL_S
        while any(t.at is None or t.at < last for t in self.trainers):
            self.collect()
            if time.monotonic() > deadline:
                raise SystemExit(f"chaos: ranks are at {[t.at for t in self.trainers]} and do not reach {last}")
            time.sleep(0.01)
        for trainer in self.trainers:
            trainer.kill()
        if self.sidecar:
            self.sidecar.__exit__()
        return last

    def compare(self, last):
        compared = 0
        with headrace.Loader(keys()) as loader:
            while True:
                for batch in loader:
                    at = (batch.epoch, batch.step)
                    want = list(zip(batch.records.tolist(), sample_digests(batch)))
                    if self.delivered.get(at) != want or self.digests[at] != batch.state["order_digest"]:
                        raise SystemExit(f"chaos: epoch {at[0]} step {at[1]} is not what an undisturbed run has")
                    compared += 1
                    if at == last:
                        return compared

    def go(self):
        if not self.options.private:
            self.start_sidecar()
        self.start_trainers()
        self.disturb()
        compared = self.compare(self.finish())
        kills = ", ".join(f"{n} {kind}" for kind, n in self.count.items())
        print(f"chaos: seed {self.options.seed}: {sum(self.count.values())} kills survived ({kills}), {self.resizes} "
              f"changes of ranks, {self.batches} batches delivered, {compared} global batches compared: equal",
              flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--kills", type=int, default=20)
    p.add_argument("--seconds", type=float, default=3600, help="no more kills after so long")
    p.add_argument("--fault", help="storage that fails as well: a schedule for 'headrace serve --fault'")
    p.add_argument("--replicas", action="store_true", help="up to three trainers a rank, on a shared stream")
    p.add_argument("--private", action="store_true", help="one trainer with a private sidecar")
    with tempfile.TemporaryDirectory(prefix="headrace-chaos-") as folder:
        run = Run(p.parse_args(), folder)
        try:
            run.go()
        finally:
            run.shoot([trainer.pid for trainer in run.trainers])
            if run.sidecar and run.sidecar.process:
                run.sidecar.kill()


if __name__ == "__main__":
    main()
