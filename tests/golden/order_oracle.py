#!/usr/bin/env python3
"""A second implementation of docs/order.md and docs/state.md, written from those pages alone.

usage: order_oracle.py TUPLES_PROGRAM [COUNT [SEED]]

Draws random plans, asks the program (tests/golden/order_tuples.c) and compares every number.
"""
import functools
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
STOPS = ["all_exhausted", "first_exhausted", "steps"]


def mix(z):
    z = ((z ^ (z >> 30)) * MUL1) & M64
    z = ((z ^ (z >> 27)) * MUL2) & M64
    return z ^ (z >> 31)


@functools.lru_cache(maxsize=4096)
def key(*words):
    k = 0
    for w in words:
        k = mix(((k ^ w) + WEYL) & M64)
    return k


def permute(n, k, x):
    bits = max(2, (n - 1).bit_length())
    lbits = bits // 2
    rbits = bits - lbits
    right_mask, left_shift, right_shift = (1 << rbits) - 1, 64 - lbits, 64 - rbits
    keys = [k + i * WEYL for i in range(8 if bits > 8 else 32)]
    while True:
        left, right = x >> rbits, x & right_mask
        for i in range(0, len(keys), 2):
            z = (right + keys[i]) * MUL1 & M64  # f(right + ..., lbits)
            left ^= ((z ^ (z >> 32)) * MUL2 & M64) >> left_shift
            z = (left + keys[i + 1]) * MUL1 & M64
            right ^= ((z ^ (z >> 32)) * MUL2 & M64) >> right_shift
        x = (left << rbits) + right
        if x < n:
            return x


def whole(x):
    """The whole number >= 1 that x is within 1e-9 of, or None."""
    near = int(x + 0.5)
    return near if near >= 1 and abs(x - near) <= 1e-9 else None


@functools.lru_cache(maxsize=64)
def shares_of(weights):
    """(shares, G, L)"""
    total_weight = 0.0
    for w in weights:
        total_weight += w
    for total in range(len(weights), 4097):
        near = []
        for w in weights:
            near.append(whole(w * total / total_weight))
            if near[-1] is None:
                break
        else:
            if sum(near) == total:
                return near, total, -(-64 // total) * total if total <= 1024 else 1024
    total = 1 << 32
    parts = [w * total / total_weight for w in weights]
    shares = [int(x) for x in parts]
    if min(shares) == 0:
        raise ValueError("a weight is too small")
    order = sorted(range(len(parts)), key=lambda s: (int(parts[s]) - parts[s], s))
    for s in order[:total - sum(shares)]:
        shares[s] += 1
    return shares, total, 1024


@functools.lru_cache(maxsize=64)
def kept_of(records, keep):
    """What a filter left: a scattered one in `keep` records, the first one always."""
    return [r for r in range(records) if (r * 2654435761 % (1 << 32) >> 7) % keep == 0]


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

    def at(self, epoch, position):
        """(source, record)"""
        return 0, self.record(epoch, position)

    def place(self, epoch, step, i):
        """(epoch, position, source, record, valid)"""
        if self.last == "wrap":
            at = self.ordinal(epoch, step) * self.batch + i
            epoch, position = divmod(at, self.n)
        else:
            position = step * self.batch + i
            if position >= self.n:
                return epoch, position, 0, 0, 0
        return (epoch, position) + self.at(epoch, position) + (1,)

    def stand_in(self, epoch, position, n, x, attempt):
        if n == 1:
            return x
        y = permute(n - 1, key(self.seed, epoch, 4, position), (attempt - 1) % (n - 1))
        return y if y < x else y + 1

    def substitute(self, place, attempt):
        epoch, position, _, record, valid = place
        return self.stand_in(epoch, position, self.n, record, attempt) if valid else record

    def next(self, epoch, step):
        if step + 1 < self.steps(epoch):
            return epoch, step + 1
        epoch += 1
        while self.last == "wrap" and self.steps(epoch) == 0:
            epoch += 1
        return epoch, 0

    def digested(self, place):
        return struct.pack("<Q", place[3])

    def advance(self, digest, epoch, step):
        total, valid = self.samples(step), 0
        for first in range(0, total, 256):
            places = [self.place(epoch, step, i) for i in range(first, min(first + 256, total))]
            ids = b"".join(self.digested(p) for p in places if p[4])
            valid += sum(p[4] for p in places)
            if ids and xxhash:
                digest = xxhash.xxh3_64_intdigest(ids, digest)
        return self.next(epoch, step) + (valid, digest)


class Mixture(Order):
    """Sources are dicts: records (all that the file has), weight or repeats, kept (a list, or None)."""

    def __init__(self, kind, last, seed, batch, block, opened, sources, stop="all_exhausted", stop_steps=0):
        super().__init__(kind, last, seed, 0, batch, block, opened)
        self.sources = sources
        self.counts = [len(s["kept"]) if s.get("kept") is not None else s["records"] for s in sources]
        self.orders = [Order(kind, last, key(seed, i, 6), n, batch, block, opened)
                       for i, n in enumerate(self.counts)]
        self.by_repeats = any(s.get("repeats") for s in sources)
        if self.by_repeats:
            self.repeats = [s["repeats"] for s in sources]
            self.shares = [n * r for n, r in zip(self.counts, self.repeats)]
            self.n = self.total = sum(self.shares)
            self.period = 1024
        else:
            self.shares, self.total, self.period = shares_of(tuple(s["weight"] for s in sources))
            ends = [(n * self.total, g) for n, g in zip(self.counts, self.shares)]
            self.n = {"all_exhausted": max(-(-a // g) for a, g in ends),
                      "first_exhausted": min(a // g for a, g in ends),
                      "steps": stop_steps * batch}[stop]
        self.dealt = {}

    def visits(self, x):
        """Of each source among the first x positions."""
        out = []
        for s in range(len(self.shares) - 1, 0, -1):
            before = x * sum(self.shares[:s]) // sum(self.shares[:s + 1])
            out.insert(0, x - before)
            x = before
        return [x] + out

    def deal(self, epoch, block):
        """The sources of a period's positions, and the visits before it."""
        start = block * self.period
        end = start + self.period
        if self.by_repeats:
            end = min(end, self.n)
        name = (epoch if self.by_repeats else 0, block)
        if name not in self.dealt:
            before, after = self.visits(start), self.visits(end)
            deck = [s for s in range(len(before)) for _ in range(after[s] - before[s])]
            k = key(self.seed, name[0], 5, block)
            self.dealt = {name: ([deck[permute(len(deck), k, r)] for r in range(len(deck))], before)}
        return self.dealt[name]

    def at(self, epoch, position):
        self.index_of(epoch, position)
        return self.found[0], self.original(*self.found)

    def original(self, source, index):
        kept = self.sources[source].get("kept")
        return index if kept is None else kept[index]

    def index_of(self, epoch, position):
        x = position if self.by_repeats else epoch * self.n + position
        block, offset = divmod(x, self.period)
        sources, before = self.deal(epoch, block)
        s = sources[offset]
        k = before[s] + sources[:offset].count(s)
        own, index = divmod(k, self.counts[s])
        if self.by_repeats:
            own += epoch * self.repeats[s]
        self.found = s, self.orders[s].record(own, index)

    def substitute(self, place, attempt):
        epoch, position, source, record, valid = place
        if not valid:
            return record
        self.index_of(epoch, position)
        index = self.stand_in(epoch, position, self.counts[source], self.found[1], attempt)
        return self.original(source, index)

    def digested(self, place):
        packed = struct.pack("<Q", place[3])
        return packed + struct.pack("<I", place[2]) if len(self.sources) > 1 else packed


class Filtered(Order):
    """One source of which a filter kept a list."""

    def __init__(self, kind, last, seed, kept, batch, block, opened):
        super().__init__(kind, last, seed, len(kept), batch, block, opened)
        self.kept = kept

    def at(self, epoch, position):
        return 0, self.kept[self.record(epoch, position)]

    def substitute(self, place, attempt):
        if not place[4]:
            return place[3]
        x = self.record(place[0], place[1])
        return self.kept[self.stand_in(place[0], place[1], self.n, x, attempt)]


def make(q):
    kind, last, seed, n, batch, block, opened = q[:7]
    count, stop, stop_steps = q[14:17]
    kind, last = KINDS[kind], LASTS[last]
    sources = []
    for i in range(count):
        records, weight, repeats, keep = q[17 + 4 * i:21 + 4 * i]
        kept = kept_of(records, keep) if keep > 1 else None
        sources.append({"records": records, "weight": float(weight), "repeats": repeats, "kept": kept})
    if count > 1 or (count == 1 and sources[0]["repeats"]):
        return Mixture(kind, last, seed, batch, block, opened, sources, STOPS[stop], stop_steps)
    if count == 1:
        return Filtered(kind, last, seed, range(sources[0]["records"]) if sources[0]["kept"] is None else sources[0]["kept"], batch, block,
                        opened)
    return Order(kind, last, seed, n, batch, block, opened)


def answer(q):
    epoch, step, first, count, rank, world, attempt = q[7:14]
    try:
        order = make(q)
    except ValueError:
        return "refused"
    if order.last == "drop" and order.batch > order.n:
        return "refused"
    out = [str(order.steps(epoch)), str(min(order.ordinal(epoch, step), M64))]
    if step >= order.steps(epoch):
        return " ".join(out + ["no-step"])
    total = order.samples(step)
    if rank < world and order.batch % world == 0:
        shares = [total // world + (r < total % world) for r in range(world)]
        out.append("%d+%d/%d" % (sum(shares[:rank]), shares[rank], total))
    else:
        out.append("no-world")
    for i in range(first, min(first + count, total)):
        place = order.place(epoch, step, i)
        out.append("%d:%d:%d:%d:%d:%d" % (place + (order.substitute(place, attempt),)))
    if total <= 1024:
        out.append("%d:%d:%d:%016x" % order.advance(order.seed, epoch, step))
    return " ".join(out)


def draw_sources(rng, kind, block):
    """(count, stop, steps, then records, weight, repeats, keep of each), and a block size for windows."""
    if rng.random() < 0.4:
        return (0, 0, 0), block
    by_repeats = rng.random() < 0.3
    out = (rng.choice([1, 2, 2, 3, 3, 4, 8]), rng.randrange(3), rng.randint(1, 200))
    for _ in range(out[0]):
        records = rng.choice([1, 10, 1000, rng.randint(1, 50), rng.randint(1, 5000), 10**9,
                              100000 if rng.random() < 0.1 else 2])
        keep = rng.choice([1, 1, 2, 3, 50]) if records < 10**9 else 1
        weight = rng.choice([1, 2, 3, 0.1, 0.7, 1 / 3, 2.718281828459045, 1e-4, 1000, rng.random() + 1e-3])
        if KINDS[kind] == "window" and records > 10**6:
            block = max(block, records // 400)
        out += (records, repr(float(weight)), rng.randint(1, 5) if by_repeats else 0, keep)
    return out, block


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
    seed = rng.choice([0, 1, 7, rng.getrandbits(64)])
    mixture, block = draw_sources(rng, kind, block)
    if mixture[0]:
        epoch = rng.choice([0, 1, rng.randint(0, 100)])
    plan = (kind, last, seed, n, batch, block, opened)
    try:
        steps = make(plan + (0,) * 7 + mixture).steps(epoch)
    except ValueError:
        steps = 0
    step = rng.choice([0, max(steps - 1, 0), steps, rng.randint(0, max(steps - 1, 0))])
    world = rng.choice([1, 2, 3, 4, 8, batch if batch <= 1024 else 1])
    first = rng.randrange(batch)
    return plan + (epoch, step, first, 8, rng.randrange(world), world, rng.randint(1, 50)) + mixture


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    if not xxhash:
        print("# the digest is not compared: Python has no xxhash module (python3-xxhash)")
    questions = [draw(rng) for _ in range(count)]
    text = "".join(" ".join(map(str, q)) + "\n" for q in questions)
    lines = subprocess.run([program], input=text, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    if len(lines) != count:
        sys.exit("%d answers to %d questions" % (len(lines), count))
    places = mixtures = 0
    for q, line in zip(questions, lines):
        want = answer(q)
        if not xxhash and want.count(":"):
            want, line = (s[:s.rfind(":")] if len(s.split()[-1]) > 20 else s for s in (want, line))
        if line != want:
            sys.exit("differs for %s\n  program: %s\n  oracle:  %s" % (q, line, want))
        places += line.count(":") // 5
        mixtures += q[14] > 0
    print("%d random plans, %d of them of sources, about %d samples: all equal" % (count, mixtures, places))


if __name__ == "__main__":
    main()
