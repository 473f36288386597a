"""The random numbers of docs/ops.md ("Randomness"), written from that page and the paper: Philox 4x32-10 keyed by (seed,
epoch, position, stream)."""
MASK = 0xFFFFFFFF


def philox(counter, key):
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k0, q & MASK, (p >> 32) ^ c[3] ^ k1, p & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


class Draws:
    def __init__(self, seed, epoch, position, stream):
        mixed = philox([epoch & MASK, epoch >> 32, 0x68726167, 0], (seed & MASK, seed >> 32))
        self.key = mixed[:2]
        self.counter = [0, stream, position & MASK, position >> 32]
        self.words = []

    def word(self):
        if not self.words:
            self.words = philox(self.counter, self.key)
            self.counter[0] += 1
        return self.words.pop(0)

    def uniform(self):
        high, low = self.word() >> 5, self.word() >> 6
        return (high * 2**26 + low) / 2**53

    def below(self, n):
        limit = 2**64 - 1 - (2**64 - 1) % n
        while True:
            v = self.word() << 32 | self.word()
            if v < limit:
                return v % n
