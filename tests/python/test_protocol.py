"""A client in Python that knows docs/protocol.md and nothing else: its tables give every offset used here."""
import array
import json
import mmap
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

PAGE = (feed.ROOT / "docs" / "protocol.md").read_text()
CODES = {"u32": "<I", "i32": "<i", "u64": "<Q"}
DTYPES = {1: np.uint8, 6: np.int32, 7: np.int64, 10: np.float32}


def tables():
    found, fields = {}, None
    for line in PAGE.splitlines():
        head = re.match(r"([A-Z_]+) (?:kind=(\d+) )?bytes=(\d+)", line)
        row = re.match(r" *(\d+) (u32|i32|u64|\d+) +(\w+)", line)
        if head:
            fields = {}
            found[head[1]] = (int(head[2] or 0), int(head[3]), fields)
        elif row and fields is not None:
            fields[row[3]] = (int(row[1]), row[2])
        elif line.startswith("```"):
            fields = None
    return found


TABLES = tables()


class View:
    """The named fields of a message, page or header."""

    def __init__(self, table, memory, at=0):
        self.fields, self.memory, self.at = TABLES[table][2], memory, at

    def __getitem__(self, name):
        offset, kind = self.fields[name]
        if kind in CODES:
            return struct.unpack_from(CODES[kind], self.memory, self.at + offset)[0]
        return bytes(self.memory[self.at + offset:self.at + offset + int(kind)])

    def __setitem__(self, name, value):
        offset, kind = self.fields[name]
        if kind in CODES:
            struct.pack_into(CODES[kind], self.memory, self.at + offset, value)
        else:
            self.memory[self.at + offset:self.at + offset + len(value)] = value

    def text(self, name):
        return self[name].split(b"\0")[0].decode()


def message(name, **values):
    kind, size, _ = TABLES[name]
    memory = bytearray(size)
    struct.pack_into("<II", memory, 0, kind, size)
    view = View(name, memory)
    for key, value in values.items():
        view[key] = value
    return memory


class Client:
    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(20)

    def hello(self, state=b"", **values):
        self.sock.send(message("HELLO", wire_version=2, world=1, state_bytes=len(state), state=state,
                               client=b"test", **values))

    def receive(self):
        data, control, _, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(32))
        fds = array.array("i")
        for _, _, part in control:
            fds.frombytes(part)
        if not data:
            raise EOFError
        kind, size = struct.unpack_from("<II", data)
        assert size == len(data)
        name = next(n for n, (k, _, _) in TABLES.items() if k == kind)
        return name, View(name, data), list(fds)

    def attach(self, **values):
        self.hello(**values)
        name, self.welcome, (data_fd, control_fd, self.wake_fd) = self.receive()
        assert name == "WELCOME" and self.welcome["wire_version"] == 2
        assert self.welcome["writable"] == (0 if values.get("want_shared") else 1)
        access = mmap.ACCESS_WRITE if self.welcome["writable"] else mmap.ACCESS_READ
        self.data = mmap.mmap(data_fd, self.welcome["data_bytes"], access=access)
        self.generation = self.welcome["generation"]
        self.page = mmap.mmap(control_fd, self.welcome["control_bytes"])
        os.close(data_fd)
        os.close(control_fd)
        self.control = View("CONTROL", self.page)
        assert self.control["magic"] == 0x316c7463656e6168
        assert self.control["slot_count"] == self.welcome["slot_count"]

    def next(self):
        """(slot, ticket, header, fields) of the next batch."""
        tail = self.control["tail"]
        while self.control["head"] == tail:
            select.select([self.sock], [], [], 0.002)
        at = TABLES["CONTROL"][2]["queue"][0] + tail % 256 * 16
        slot, ticket, generation, _ = struct.unpack_from("<4I", self.page, at)
        self.control["tail"] = tail + 1
        assert generation == self.generation
        base = slot * self.welcome["slot_bytes"]
        head = View("BATCH", self.data, base)
        assert head["magic"] == 0x3168637461627268
        fields = {}
        for i in range(head["field_count"]):
            f = View("FIELD", self.data, base + head["header_bytes"] + i * head["field_bytes"])
            fields[f.text("name")] = f
        return slot, ticket, head, fields

    def array(self, head, field):
        dims = field["dims"]
        shape = struct.unpack("<8q", field["shape"])[:dims]
        strides = struct.unpack("<8q", field["strides"])[:dims]
        return np.ndarray(shape, DTYPES[field["dtype"]], self.data, head.at + field["data_off"], strides).copy()

    def records(self, head):
        return np.frombuffer(self.data, np.uint64, head["count"], head.at + head["records_off"]).tolist()

    def release(self, slot, ticket):
        at = TABLES["CONTROL"][2]["lease"][0] + slot * 64
        struct.pack_into("<I", self.page, at, ticket)
        if self.control["producer_waits"]:
            os.write(self.wake_fd, struct.pack("<Q", 1))


def rows(client, count):
    out = []
    for i in range(count):
        slot, ticket, head, fields = client.next()
        first = head["sequence"] - i if i == 0 else first
        assert head["sequence"] == first + i and (first == 0 or not client.welcome["writable"])
        out.append((head["epoch"], head["step"], client.records(head), client.array(head, fields["image"]),
                    client.array(head, fields["label"]), head.text("state")))
        client.release(slot, ticket)
    return out


def same(got, want):
    for a, b in zip(got, want):
        assert a[:3] == b[:3]
        np.testing.assert_array_equal(a[3], b[3])
        np.testing.assert_array_equal(a[4], b[4])
    return len(got) == len(want)


def reference(keys, count):
    out = []
    with headrace.Loader(keys) as loader:
        while len(out) < count:
            for batch in loader:
                out.append((batch.epoch, batch.step, batch.records.tolist(), batch["image"].copy(),
                            batch["label"].copy()))
    return out[:count]


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(path)
    return Client(sock)


def test_the_page_is_enough_to_be_fed():
    keys = feed.small()
    want = reference(keys, 20)
    with feed.Sidecar(keys) as sidecar:
        client = connect(sidecar.path)
        client.attach()
        assert client.welcome["batch"] == 8 and client.welcome["dataset_records"] == 64
        assert same(rows(client, 6), want[:6])
        client.sock.send(message("SEEK", epoch=1))
        name, seeked, _ = client.receive()
        assert name == "SEEKED" and seeked["steps_per_epoch"] == 8
        client.sock.send(message("STATS_ASK"))
        assert client.receive()[0] == "STATS"
        client.sock.send(message("BYE"))
        other = connect(sidecar.path)
        other.attach(state=rows_state(keys, 4))
        assert same(rows(other, 3), want[4:7])


def rows_state(keys, count):
    with headrace.Loader(keys) as loader:
        feed.take(loader, count)
        return json.dumps(loader.state_dict(), separators=(",", ":")).encode()


def test_a_replica_stands_where_it_moved_though_it_still_has_what_was_ready_before():
    """It was alone when it moved, has not heard of it yet, and another one comes, from further back."""
    keys = feed.small()
    want = reference(keys, 40)
    with feed.Sidecar(keys) as sidecar:
        client = connect(sidecar.path)
        client.attach(want_shared=1)
        assert feed.eventually(lambda: client.control["head"] == client.welcome["slot_count"])
        client.sock.send(message("SEEK", epoch=4))
        assert client.receive()[0] == "SEEKED"
        with headrace.Loader(sidecar.address, shared=True, timeout=20) as other:
            client.generation += 2  # its own seek, and the way back for the other one
            assert [r[:2] for r in feed.take(other, 34)] == [w[:2] for w in want[:34]]
            assert same(rows(client, 2), want[32:34])


def test_a_private_client_says_hello_again_when_it_is_told_to(tmp_path):
    keys = feed.small()
    want = reference(keys, 9)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    conf = feed.write_conf(tmp_path / "c.json", keys)
    process = subprocess.Popen([feed.BIN, "serve", conf, "--fd", str(theirs.fileno())], pass_fds=[theirs.fileno()],
                               stderr=subprocess.DEVNULL)
    theirs.close()
    client = Client(ours)
    client.attach()
    got = rows(client, 4)
    for incarnation in (1, 2):
        os.kill(feed.children(process.pid)[0], signal.SIGKILL)
        name, told, _ = client.receive()
        assert name == "RESTARTED" and told["incarnation"] == incarnation
        client.sock.send(message("STATS_ASK"))  # not heard
        client.hello(incarnation=incarnation - 1)  # nor this
        client.attach(state=got[-1][5].encode(), incarnation=incarnation)
        got += rows(client, 2)
    assert same(got, want[:8])
    ours.close()
    assert process.wait(10) == 0


def test_a_sidecar_ends_with_the_trainer_of_its_descriptor_whoever_else_is_fed(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    conf = feed.write_conf(tmp_path / "c.json", feed.small())
    process = subprocess.Popen([feed.BIN, "serve", conf, "--fd", str(theirs.fileno()), "--socket", str(tmp_path / "s")],
                               pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    theirs.close()
    assert process.stdout.readline().startswith("ready")
    client = Client(ours)
    client.hello()
    assert client.receive()[0] == "WELCOME"
    other = connect(str(tmp_path / "s"))
    other.sock.send(message("HELLO", wire_version=2, world=2, rank=1))
    assert other.receive()[0] == "WELCOME"
    ours.close()
    out, err = process.communicate(timeout=4)  # by itself: it would be killed after five seconds
    assert process.returncode == 0 and "killed" not in err and not (tmp_path / "s").exists()


def test_what_makes_no_sense_is_refused():
    with feed.Sidecar(feed.small()) as sidecar:
        for bad, code in [(message("HELLO", wire_version=99, world=1), -20),
                          (message("HELLO", wire_version=2, world=3), None),
                          (message("SEEK"), -19), (b"x" * 16, -19),
                          (message("HELLO", wire_version=2, world=1, state_bytes=3, state=b"{}}"), None)]:
            client = connect(sidecar.path)
            client.sock.send(bad)
            name, error, _ = client.receive()
            assert name == "ERROR" and error["code"] < 0 and code in (None, error["code"])
            with pytest.raises(EOFError):
                client.receive()
        old = connect(sidecar.path)  # from before `incarnation`
        short = message("HELLO", wire_version=2, world=1)[:608]
        struct.pack_into("<I", short, 4, 608)
        old.sock.send(short)
        assert old.receive()[0] == "WELCOME"
