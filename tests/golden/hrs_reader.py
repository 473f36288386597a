"""A second, independent reader of .hrs, written from docs/formats/hrs.md: standard library only.

Checks the golden shard against values that are listed here, that the writer still produces the same
bytes, and (with the xxhash module) every checksum and the digest. With more arguments it dumps a
shard: hrs_reader.py --dump FILE, or checks any shard: hrs_reader.py --check FILE.
"""
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import xxhash
except ImportError:
    xxhash = None

SCALARS = {9: "i64", 10: "f64", 11: "bool", 12: "str"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def message(data):
    """Protobuf fields: number -> list of ints or bytes."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise ValueError("wire type %d" % kind)
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def one(fields, number, default=0):
    return fields.get(number, [default])[-1]


def packed(fields, number):
    values = []
    for item in fields.get(number, []):
        if isinstance(item, int):
            values.append(item)
            continue
        at = 0
        while at < len(item):
            value, at = varint(item, at)
            values.append(value)
    return values


def lz4_block(data, size):
    """Decompresses one LZ4 block."""
    out, at = bytearray(), 0
    while at < len(data):
        token = data[at]
        at += 1
        count = token >> 4
        if count == 15:
            while True:
                count += data[at]
                at += 1
                if data[at - 1] != 255:
                    break
        out += data[at:at + count]
        at += count
        if at >= len(data):
            break
        back = data[at] | data[at + 1] << 8
        at += 2
        count = (token & 15) + 4
        if token & 15 == 15:
            while True:
                count += data[at]
                at += 1
                if data[at - 1] != 255:
                    break
        for _ in range(count):
            out.append(out[-back])
    assert len(out) == size, "LZ4 block gives %d bytes, not %d" % (len(out), size)
    return bytes(out)


def check32(data, expected, what):
    if xxhash:
        assert xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF == expected, "checksum of " + what


class Shard:
    def __init__(self, data):
        self.data = data
        head, tail = data[:64], data[-64:]
        assert head[:8] == b"\x89HRS\r\n\x1a\n", "magic"
        assert struct.unpack_from("<II", head, 8) == (1, 0), "version, flags"
        assert head[32:60] == bytes(28)
        check32(head[:60], struct.unpack_from("<I", head, 60)[0], "header")
        footer_off, footer_bytes, file_bytes = struct.unpack_from("<QQQ", tail, 0)
        assert tail[56:] == b"HRS-END\n" and file_bytes == len(data)
        assert footer_off + footer_bytes + 64 == len(data)
        check32(tail[:52], struct.unpack_from("<I", tail, 52)[0], "trailer")
        footer = data[footer_off:footer_off + footer_bytes]
        check32(footer, struct.unpack_from("<I", tail, 40)[0], "footer")
        self.digest = tail[24:40]
        self.footer_off = footer_off
        self.parse(message(footer), head)

    def parse(self, footer, head):
        assert one(footer, 1) == 1 and one(footer, 2, b"") == head[16:32]
        self.records = one(footer, 3)
        schema = message(one(footer, 4, b""))
        self.fields = []
        for raw in schema.get(1, []):
            f = message(raw)
            self.fields.append({"name": one(f, 1, b"").decode(), "type": one(f, 2), "dtype": one(f, 3),
                                "shape": packed(f, 4), "codec": one(f, 5)})
        self.class_field = one(schema, 2)
        self.classes = schema.get(3, [])
        self.streams = [(one(m, 1), one(m, 2), one(m, 3)) for m in map(message, footer.get(5, []))]
        self.columns, self.hashed, self.sections = {}, [], []
        at = None
        for raw in footer.get(6, []):
            s = [one(message(raw), n) for n in range(1, 12)]
            kind, owner, item, flags, codec, width, count, offset, stored, size, checksum = s
            assert at is None or offset == at, "sections follow each other"
            at = offset + stored
            self.sections.append(s)
            self.add_section(*s)
        self.payload_end = self.sections[0][7] if self.sections else self.footer_off
        assert at is None or at == self.footer_off

    def add_section(self, kind, owner, item, flags, codec, width, count, offset, stored, size, checksum):
        data = self.data[offset:offset + stored]
        if xxhash:
            assert xxhash.xxh3_64_intdigest(data) == checksum, "checksum of section %d" % kind
        raw = data if codec == 0 else self.expand(data, size, width if codec == 2 else 0)
        assert len(raw) == size
        self.hashed.append((kind, owner, item, flags, width, count, size, raw))
        assert 1 <= kind <= 17 or flags & 1, "unknown section"
        if width:
            assert size == count * width
            items = [int.from_bytes(raw[i:i + width], "little") for i in range(0, size, width)]
            self.columns[kind, owner, item] = items[0] if flags & 2 else items
        else:
            self.columns[kind, owner, item] = raw

    @staticmethod
    def expand(data, size, planes):
        out, at = b"", 0
        while len(out) < size:
            want = min(1 << 20, size - len(out))
            n = struct.unpack_from("<I", data, at)[0]
            chunk = data[at + 4:at + 4 + n]
            at += 4 + n
            chunk = chunk if n == want else lz4_block(chunk, want)
            if planes:
                items = want // planes
                chunk = bytes(chunk[k * items + i] for i in range(items) for k in range(planes))
            out += chunk
        assert at == len(data)
        return out

    def get(self, kind, owner, record, item=0, default=0):
        column = self.columns.get((kind, owner, item), default)
        return column[record] if isinstance(column, list) else column

    def strings(self, lengths, data, owner):
        out, at = [], 0
        for r in range(self.records):
            n = self.get(lengths, owner, r)
            out.append(self.columns.get((data, owner, 0), b"")[at:at + n])
            at += n
        assert at == len(self.columns.get((data, owner, 0), b""))
        return out

    def present(self, field, record):
        bits = self.columns.get((3, field, 0))
        return bits is None or bits[record // 8] >> record % 8 & 1 == 1

    def keys(self):
        return self.strings(1, 2, 0)

    def values(self):
        """Rows of {field name: bytes, number or None}."""
        rows = [{} for _ in range(self.records)]
        for i, f in enumerate(self.fields):
            if f["type"] in SCALARS:
                self.scalars(i, f, rows)
        used = bytearray(self.payload_end)
        used[:64] = b"\x01" * 64
        for s in range(len(self.streams)):
            self.stream(s, rows, used)
        for at in range(64, self.payload_end):
            assert used[at] or self.data[at] == 0, "padding at %d" % at
        return rows

    def scalars(self, i, f, rows):
        texts = self.strings(10, 11, i) if f["type"] == 12 else None
        for r in range(self.records):
            bits = self.get(9, i, r)
            if not self.present(i, r):
                value = None
            elif f["type"] == 12:
                value = texts[r]
            elif f["type"] == 10:
                value = struct.unpack("<d", struct.pack("<Q", bits))[0]
            elif f["type"] == 11:
                value = bits == 1
            else:
                value = (bits >> 1) ^ -(bits & 1)
            rows[r][f["name"]] = value

    def extent(self, s, codec, e, raw_bytes, count, used):
        raw, off, stored = (self.get(k, s, e) for k in (14, 15, 16))
        end = self.get(14, s, e + 1) if e + 1 < count else raw_bytes
        data = self.data[off:off + stored]
        assert len(data) == stored and off >= 64 and off + stored <= self.payload_end
        assert not any(used[off:off + stored]), "extents overlap"
        used[off:off + stored] = b"\x01" * stored
        if codec == 0:
            assert stored == end - raw and (off - raw) % 4096 == 0
        else:
            check32(data, self.get(17, s, e), "block")
            data = data if stored == end - raw else lz4_block(data, end - raw)
        return raw, end, data

    def stream(self, s, rows, used):
        codec, raw_bytes, count = self.streams[s]
        fields = [i for i, f in enumerate(self.fields) if f["type"] not in SCALARS and f["codec"] == codec]
        extents = [self.extent(s, codec, e, raw_bytes, count, used) for e in range(count)]
        pos = e = 0
        for r in range(self.records):
            for i in fields:
                n, value = self.get(4, i, r), b""
                if not self.present(i, r):
                    assert n == 0
                    rows[r][self.fields[i]["name"]] = None
                    continue
                if n:
                    if codec == 0 and n >= 65536:
                        pos = (pos + 4095) // 4096 * 4096
                    while pos >= extents[e][1]:
                        e += 1
                    raw, end, data = extents[e]
                    assert raw <= pos and pos + n <= end
                    value = data[pos - raw:pos - raw + n]
                    pos += n
                check32(value, self.get(5, i, r), "record %d" % r)
                rows[r][self.fields[i]["name"]] = value
        assert pos == raw_bytes

    def computed_digest(self):
        def u64(*values):
            return b"".join(struct.pack("<Q", v) for v in values)

        def text(b):
            return u64(len(b)) + b

        h = xxhash.xxh3_128()
        h.update(self.data[:8] + u64(1, 0, self.records, len(self.fields)))
        for f in self.fields:
            h.update(text(f["name"].encode()) + u64(f["type"], f["dtype"], f["codec"], len(f["shape"]), *f["shape"]))
        h.update(u64(self.class_field, len(self.classes)) + b"".join(map(text, self.classes)))
        for codec, raw_bytes, _ in self.streams:
            h.update(u64(codec, raw_bytes))
        for kind, owner, item, flags, width, count, size, raw in self.hashed:
            if not 14 <= kind <= 17:
                h.update(u64(kind, owner, item, flags, width, count, size) + raw)
        return h.digest()


GOLDEN = [
    (b"a", {"blob": b"BLOB", "text": b"row row row row row your boat your boat", "label": 1, "name": b"Anna"}),
    (b"b", {"blob": None, "text": b"", "label": 0, "name": b"Bo"}),
    (b"c/d", {"blob": b"0123456789", "text": b"gently down the stream", "label": None, "name": b""}),
]


def check(shard):
    rows = shard.values()
    if xxhash:
        assert shard.computed_digest() == shard.digest, "digest"
    else:
        print("# skipped checksums and digest: no Python module xxhash")
    return rows


def dump(data):
    """Annotated hex dump, as in docs/formats/hrs.md."""
    shard = Shard(data)
    marks = {0: "header"}
    for s, (codec, raw_bytes, count) in enumerate(shard.streams):
        for e in range(count):
            marks[shard.get(15, s, e)] = "stream %d (codec %d), extent %d" % (s, codec, e)
            end = shard.get(15, s, e) + shard.get(16, s, e)
            marks.setdefault(end, "padding")
    for kind, owner, item, flags, codec, width, count, offset, stored, size, checksum in shard.sections:
        marks[offset] = "section kind %d, owner %d%s%s, width %d" % (
            kind, owner, ", item %d" % item if item else "", ", constant" if flags & 2 else "", width)
    marks.setdefault(64, "padding")
    marks[shard.footer_off] = "footer"
    marks[len(data) - 64] = "trailer"
    places = sorted(p for p in marks if p < len(data))
    for start, end in zip(places, places[1:] + [len(data)]):
        part = data[start:end]
        print("%s" % marks[start])
        if len(part) > 256 and not any(part):
            print("  %06x  %d zero bytes" % (start, len(part)))
            continue
        for at in range(0, len(part), 16):
            row = part[at:at + 16]
            print("  %06x  %-47s  %s" % (start + at, row.hex(" "), "".join(
                chr(c) if 32 <= c < 127 else "." for c in row)))


def main():
    if sys.argv[1] == "--dump":
        return dump(Path(sys.argv[2]).read_bytes())
    if sys.argv[1] == "--check":
        shard = Shard(Path(sys.argv[2]).read_bytes())
        return print("%d records agree" % len(check(shard)))
    maker, golden = sys.argv[1:3]
    data = Path(golden).read_bytes()
    shard = Shard(data)
    assert list(zip(shard.keys(), check(shard))) == GOLDEN, "values"
    assert shard.classes == [b"cat", b"dog"] and shard.class_field == 3
    assert [shard.get(8, 1, r, 21) for r in range(3)] == [39, 0, 22], "items"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "golden.hrs"
        subprocess.run([maker, made], check=True)
        assert made.read_bytes() == data, "the writer's bytes have changed"
    print("golden shard agrees")


main()
