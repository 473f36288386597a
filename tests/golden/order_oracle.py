#!/usr/bin/env python3
"""A second implementation of docs/order.md and docs/state.md, written from those pages alone.

usage: order_oracle.py TUPLES_PROGRAM [COUNT [SEED]]

Draws random plans, asks the program (tests/golden/order_tuples.c) and compares every number.
"""
import random
import struct
import subprocess
import sys

try:
    import xxhash
except ImportError:
    xxhash = None

M64 = (1 << 64) - 1
WEYL, MUL1, MUL2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
KINDS = ["full", "window", "none"]
LASTS = ["drop", "pad", "wrap", "keep"]


def mix(z):
    z = ((z ^ (z >> 30)) * MUL1) & M64
    z = ((z ^ (z >> 27)) * MUL2) & M64
    return z ^ (z >> 31)


def key(*words):
    k = 0
    for w in words:
        k = mix(((k ^ w) + WEYL) & M64)
    return k


def f(z, b):
    z = ((z & M64) * MUL1) & M64
    z = ((z ^ (z >> 32)) * MUL2) & M64
    return z >> (64 - b)


def permute(n, k, x):
    bits = max(2, (n - 1).bit_length())
    lbits = bits // 2
    rbits = bits - lbits
    rounds = 8 if bits > 8 else 32
    while True:
        left, right = x >> rbits, x & ((1 << rbits) - 1)
        for i in range(0, rounds, 2):
            left ^= f(right + k + i * WEYL, lbits)
            right ^= f(left + k + (i + 1) * WEYL, rbits)
        x = (left << rbits) + right
        if x < n:
            return x


class Order:
    def __init__(self, kind, last, seed, n, batch, block, opened):
        self.kind, self.last, self.seed, self.n, self.batch = kind, last, seed, n, batch
        self.block, self.opened = block or 1024, opened or 16
        self.slots = {}

    def window(self, epoch, i):
        """By the definition, group after group: no arithmetic shared with the C code."""
        block = min(self.block, self.n)
        blocks = -(-self.n // block)
        opened = min(self.opened, blocks)
        short = self.n - (blocks - 1) * block

        def block_of(slot):
            if (epoch, slot) not in self.slots:
                self.slots[epoch, slot] = permute(blocks, key(self.seed, epoch, 2, 0), slot)
            return self.slots[epoch, slot]

        g = 0
        while True:
            members = [block_of(s) for s in range(g * opened, min((g + 1) * opened, blocks))]
            sizes = [short if b == blocks - 1 else block for b in members]
            if i < sum(sizes):
                break
            i -= sum(sizes)
            g += 1
        q = permute(sum(sizes), key(self.seed, epoch, 3, g), i)
        for b, size in zip(members, sizes):
            if q < size:
                return b * block + q
            q -= size

    def record(self, epoch, i):
        if self.kind == "none":
            return i
        if self.kind == "full":
            return permute(self.n, key(self.seed, epoch, 1, 0), i)
        return self.window(epoch, i)

    def steps(self, epoch):
        if self.last == "drop":
            return self.n // self.batch
        if self.last == "wrap":
            return -(-(epoch + 1) * self.n // self.batch) - -(-epoch * self.n // self.batch)
        return -(-self.n // self.batch)

    def ordinal(self, epoch, step):
        if self.last == "wrap":
            return -(-epoch * self.n // self.batch) + step
        return epoch * self.steps(epoch) + step

    def samples(self, step):
        if self.last == "keep":
            return min(self.batch, self.n - step * self.batch)
        return self.batch

    def place(self, epoch, step, i):
        if self.last == "wrap":
            at = self.ordinal(epoch, step) * self.batch + i
            epoch, position = divmod(at, self.n)
        else:
            position = step * self.batch + i
            if position >= self.n:
                return epoch, position, 0, 0
        return epoch, position, self.record(epoch, position), 1

    def substitute(self, place, attempt):
        epoch, position, record, valid = place
        if self.n == 1 or not valid:
            return record
        y = permute(self.n - 1, key(self.seed, epoch, 4, position), (attempt - 1) % (self.n - 1))
        return y if y < record else y + 1

    def next(self, epoch, step):
        if step + 1 < self.steps(epoch):
            return epoch, step + 1
        epoch += 1
        while self.last == "wrap" and self.steps(epoch) == 0:
            epoch += 1
        return epoch, 0

    def advance(self, digest, epoch, step):
        total, valid = self.samples(step), 0
        for first in range(0, total, 256):
            places = [self.place(epoch, step, i) for i in range(first, min(first + 256, total))]
            ids = [p[2] for p in places if p[3]]
            valid += len(ids)
            if ids and xxhash:
                digest = xxhash.xxh3_64_intdigest(struct.pack("<%dQ" % len(ids), *ids), digest)
        return self.next(epoch, step) + (valid, digest)


def answer(q):
    kind, last, seed, n, batch, block, opened, epoch, step, first, count, rank, world, attempt = q
    order = Order(KINDS[kind], LASTS[last], seed, n, batch, block, opened)
    if order.last == "drop" and batch > n:
        return "refused"
    out = [str(order.steps(epoch)), str(min(order.ordinal(epoch, step), M64))]
    if step >= order.steps(epoch):
        return " ".join(out + ["no-step"])
    total = order.samples(step)
    if rank < world and batch % world == 0:
        shares = [total // world + (r < total % world) for r in range(world)]
        out.append("%d+%d/%d" % (sum(shares[:rank]), shares[rank], total))
    else:
        out.append("no-world")
    for i in range(first, min(first + count, total)):
        place = order.place(epoch, step, i)
        out.append("%d:%d:%d:%d:%d" % (place + (order.substitute(place, attempt),)))
    if total <= 1024:
        out.append("%d:%d:%d:%016x" % order.advance(seed, epoch, step))
    return " ".join(out)


def draw(rng):
    kind, last = rng.randrange(3), rng.randrange(4)
    n = rng.choice([rng.randint(1, 40), rng.randint(1, 3000), rng.randint(1, 1 << 24),
                    10**10, rng.randint(1, 1 << 63)])
    batch = rng.choice([rng.randint(1, 64), rng.randint(1, 300), 256, rng.randint(1, 1 << 20)])
    if rng.random() < 0.7:
        batch = min(batch, 70)
    block = rng.choice([0, 1, 2, 7, rng.randint(1, 100)])
    opened = rng.choice([0, 1, 2, 3, rng.randint(1, 20)])
    if KINDS[kind] == "window":
        # The oracle walks all groups before the one asked for; keep them few.
        block = max(block, n // 200 + 1) if block else 0
        if n // ((block or 1024) * (opened or 16)) > 200:
            block = n // 100 + 1
    epoch = rng.choice([0, 1, rng.randint(0, 100), 10**6, rng.randint(0, 1 << 40)])
    order = Order(KINDS[kind], LASTS[last], 0, n, batch, block, opened)
    steps = order.steps(epoch)
    step = rng.choice([0, max(steps - 1, 0), steps, rng.randint(0, max(steps - 1, 0))])
    world = rng.choice([1, 2, 3, 4, 8, batch if batch <= 1024 else 1])
    first = rng.randrange(batch)
    return (kind, last, rng.choice([0, 1, 7, rng.getrandbits(64)]), n, batch, block, opened, epoch,
            step, first, 8, rng.randrange(world), world, rng.randint(1, 50))


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    if not xxhash:
        print("# the digest is not compared: Python has no xxhash module (python3-xxhash)")
    questions = [draw(rng) for _ in range(count)]
    text = "".join(" ".join(map(str, q)) + "\n" for q in questions)
    lines = subprocess.run([program], input=text, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    if len(lines) != count:
        sys.exit("%d answers to %d questions" % (len(lines), count))
    places = 0
    for q, line in zip(questions, lines):
        want = answer(q)
        if not xxhash and want.count(":"):
            want, line = (s[:s.rfind(":")] if len(s.split()[-1]) > 20 else s for s in (want, line))
        if line != want:
            sys.exit("differs for %s\n  program: %s\n  oracle:  %s" % (q, line, want))
        places += line.count(":") // 4
    print("%d random plans, about %d samples: all equal" % (count, places))


if __name__ == "__main__":
    main()
