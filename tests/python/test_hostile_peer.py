"""Peers that break the protocol: they are dropped, the sidecar lives, and other trainers notice nothing."""
import array
import mmap
import os
import random
import resource
import socket
import struct
import sys
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402

# src/ring/wire.h
HELLO, WELCOME, ERROR, SEEK, SEEKED, STATS_ASK, STATS, BYE = range(1, 9)
HELLO_FORMAT = "<IIIIIIII512s64s"
CONTROL_BYTES = 192 + 64 * 256 + 16 * 256


def hello(rank=0, world=2, version=2, shared=0, force=0, state=b"", state_bytes=None, client=b"hostile"):
    return struct.pack(HELLO_FORMAT, HELLO, struct.calcsize(HELLO_FORMAT), version, rank, world, shared, force,
                       len(state) if state_bytes is None else state_bytes, state, client)


def head(kind, payload=b"", size=None):
    return struct.pack("<II", kind, 8 + len(payload) if size is None else size) + payload


def seek(state=b"", state_bytes=None, epoch=0, force=0):
    n = len(state) if state_bytes is None else state_bytes
    return head(SEEK, struct.pack("<II512sQ", force, n, state, epoch))


class Peer:
    """A raw connection."""

    def __init__(self, sidecar):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(8)
        self.sock.connect(sidecar.path)
        self.fds = []

    def send(self, *messages):
        for message in messages:
            try:
                self.sock.send(message)
            except OSError:
                break
        return self

    def answer(self):
        """(kind, message), or (None, b"") after a hang-up."""
        try:
            data, fds, _, _ = socket.recv_fds(self.sock, 8192, 8)
        except ConnectionResetError:
            return self.answer()
        self.fds += fds
        return (struct.unpack("<I", data[:4])[0], data) if data else (None, b"")

    def until_dropped(self):
        """Reads to the end; what was said, by kind."""
        kinds = []
        while True:
            kind, _ = self.answer()
            if kind is None:
                self.close()
                return kinds
            kinds.append(kind)

    def close(self):
        self.sock.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []


@pytest.fixture(scope="module")
def world():
    """A sidecar, and the sequence of an honest trainer (rank 1 of 2) beside whom others misbehave."""
    keys = feed.small(fields={"image": {"ops": [{"random_resized_crop": 48}]}, "label": None})
    with feed.Sidecar(keys) as sidecar:
        with headrace.Loader(sidecar.address, rank=1, world=2) as loader:
            want = feed.take(loader, 400)
        yield sidecar, want


@pytest.fixture
def honest(world):
    """Yields the sidecar while an honest trainer is attached; then its whole sequence is compared."""
    sidecar, want = world
    engine = sidecar.engine
    facts = feed.fds(engine), feed.threads(engine)
    with headrace.Loader(sidecar.address, rank=1, world=2, timeout=5) as loader:
        rows = feed.take(loader, 20)
        yield sidecar
        assert sidecar.alive() and sidecar.engine == engine, sidecar.log.read_text()[-2000:]
        rows += feed.take(loader, 60)
        assert rows == want[:80]
    assert feed.eventually(lambda: feed.fds(engine) <= facts[0] + 4), sidecar.log.read_text()[-2000:]
    assert feed.threads(engine) == facts[1]


def dropped(sidecar, *messages, told=ERROR):
    kinds = Peer(sidecar).send(*messages).until_dropped()
    assert told in kinds, kinds
    assert sidecar.alive()


def test_messages_of_no_meaning(honest):
    rng = random.Random(1)
    for message in (b"\0", b"x" * 7, b"\0" * 8, head(0), head(9), head(2**31), head(HELLO), hello()[:-1],
                    hello() + b"\0", head(HELLO, size=2**32 - 1), head(HELLO, b"\0" * 640, size=8),
                    head(WELCOME, b"\0" * 1500), head(ERROR), head(SEEKED), head(STATS, b"{}"), b"\xff" * 4096):
        dropped(honest, message)
    for _ in range(60):
        dropped(honest, rng.randbytes(rng.randrange(1, 4096)))


def test_messages_that_are_huge(honest):
    for size in (4097, 65_536, 150_000):
        dropped(honest, head(HELLO, b"\xff" * (size - 8)))
        dropped(honest, hello(), head(SEEK, b"\xff" * (size - 8)))


def test_messages_out_of_order(honest):
    dropped(honest, seek())
    dropped(honest, head(STATS_ASK))
    dropped(honest, hello(), hello())
    dropped(honest, hello(), hello(rank=1))
    dropped(honest, hello(), head(WELCOME))
    assert Peer(honest).send(head(BYE)).until_dropped() == []
    assert Peer(honest).send(hello(), head(BYE)).until_dropped() == [WELCOME]


@pytest.mark.parametrize("change", [
    {"world": 0}, {"rank": 2}, {"rank": 2**32 - 1}, {"world": 2**32 - 1}, {"rank": 2**31, "world": 2**32 - 1},
    {"world": 3}, {"version": 0}, {"version": 1}, {"version": 3}, {"version": 2**32 - 1}, {"rank": 1},
    {"state": b"{"}, {"state": b"\xff" * 512}, {"state": b"[" * 512}, {"state_bytes": 513},
    {"state_bytes": 2**32 - 1}, {"state": b'{"headrace_state":1}'}, {"state": b"\0{}", "state_bytes": 3, "world": 5},
])
def test_absurd_hellos(honest, change):
    dropped(honest, hello(**change))


def test_hellos_with_strange_names(honest):
    for client in (b"", b"\xff" * 64, b"\x1b[2J\n\r\0x", b"%n%s%s%s"):
        peer = Peer(honest).send(hello(client=client))
        assert peer.answer()[0] == WELCOME
        peer.close()
    assert "\x1b" not in honest.log.read_text()


def test_absurd_seeks(honest):
    for message in (seek(b"{"), seek(state_bytes=600), seek(state_bytes=2**32 - 1), seek(b"\xff" * 512),
                    seek(epoch=2**64 - 1), head(SEEK)):
        peer = Peer(honest).send(hello(), message)
        assert [peer.answer()[0] for _ in range(2)] == [WELCOME, ERROR]
        peer.close()
    begin = time.monotonic()
    dropped(honest, hello(), seek(b"{"), head(STATS_ASK), seek())  # one who does not hang up
    assert 0.9 < time.monotonic() - begin < 3


def test_seeks_in_a_row(honest):
    peer = Peer(honest).send(hello())
    assert peer.answer()[0] == WELCOME
    for i in range(200):
        peer.send(seek(epoch=i * 7 % 100))
        assert peer.answer()[0] == SEEKED
    peer.close()


@pytest.mark.parametrize("message", [seek(epoch=2**64 - 1), seek(state=b'{"epoch":1'), seek(state_bytes=2**32 - 1), b"garbage"])
def test_a_replica_that_asks_for_nonsense_does_not_stop_the_others(world, message):
    sidecar, want = world
    with headrace.Loader(sidecar.address, rank=1, world=2, shared=True, timeout=5) as loader:
        rows = feed.take(loader, 7)
        for _ in range(3):
            peer = Peer(sidecar).send(hello(rank=1, shared=1))
            assert peer.answer()[0] == WELCOME
            assert peer.send(message).answer()[0] == ERROR
            peer.close()
            rows += feed.take(loader, 7)
        assert rows == want[:28]


def test_descriptors_that_are_sent_along_are_closed(honest):
    before = feed.fds(honest.engine)
    files = [open("/dev/null") for _ in range(8)]
    for count in (1, 8):
        for message in (b"garbage", hello(rank=0)):
            peer = Peer(honest)
            fds = array.array("i", [f.fileno() for f in files[:count]])
            peer.sock.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            peer.answer()
            peer.close()
    for f in files:
        f.close()
    assert feed.eventually(lambda: feed.fds(honest.engine) <= before + 5)


def test_one_who_connects_and_says_nothing(honest):
    begin = time.monotonic()
    silent = [Peer(honest) for _ in range(40)]
    assert all(peer.until_dropped() == [] for peer in silent)
    assert time.monotonic() - begin < 8


def test_more_connections_than_are_taken(honest):
    peers = []
    while len(peers) < 300:
        try:
            peers.append(Peer(honest))
        except BlockingIOError:  # the backlog is full
            time.sleep(0.002)
    assert honest.alive()
    kind, message = peers[-1].answer()  # the one after the most is told
    assert kind == ERROR and b"256 trainers already" in message and b"another one" in message
    for peer in peers:
        peer.close()


def test_a_sidecar_without_descriptors_waits_for_some_without_spinning(honest):
    engine = honest.engine
    old = resource.prlimit(engine, resource.RLIMIT_NOFILE)
    resource.prlimit(engine, resource.RLIMIT_NOFILE, (3, old[1]))
    try:
        before, peer = feed.cpu_seconds(engine), Peer(honest).send(hello())
        time.sleep(1)
        assert feed.cpu_seconds(engine) - before < 0.3
        assert honest.log.read_text().count("cannot accept a trainer") <= 2
    finally:
        resource.prlimit(engine, resource.RLIMIT_NOFILE, old)
    assert peer.answer()[0] == WELCOME
    peer.close()


def test_one_who_asks_and_never_reads(honest):
    """Its answers fill the socket; it is dropped, or its questions wait. Nobody else waits with it."""
    peer = Peer(honest).send(hello())
    peer.sock.setblocking(False)
    for _ in range(3000):
        try:
            peer.sock.send(head(STATS_ASK))
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            break
    assert honest.alive()
    with headrace.Loader(honest.address, rank=3, world=8, timeout=2) as loader:
        assert len(feed.take(loader, 5)) == 5
    peer.close()


def test_one_who_stops_taking_batches(honest):
    peer = Peer(honest).send(hello())
    assert peer.answer()[0] == WELCOME
    time.sleep(0.3)
    peer.close()


def test_garbage_in_the_control_page(honest):
    rng = random.Random(2)
    for round in range(12):
        peer = Peer(honest).send(hello())
        assert peer.answer()[0] == WELCOME
        data_fd, control_fd, wake_fd = peer.fds
        with mmap.mmap(control_fd, CONTROL_BYTES) as page:
            for _ in range(60):
                if round % 3 == 0:
                    page[:] = rng.randbytes(CONTROL_BYTES)
                elif round % 3 == 1:
                    page[192:192 + 64 * 256] = struct.pack("<I", rng.randrange(6)).ljust(64, b"\0") * 256
                else:
                    page[rng.randrange(CONTROL_BYTES)] = rng.randrange(256)
                os.write(wake_fd, struct.pack("<Q", 1))
                time.sleep(0.001)
        if round % 2:
            peer.send(seek(epoch=3), head(STATS_ASK))
        assert honest.alive()
        peer.close()


def test_the_memory_that_it_gets_cannot_be_shrunk_or_grown(honest):
    peer = Peer(honest).send(hello())
    peer.answer()
    for fd in peer.fds[:2]:
        size = os.fstat(fd).st_size
        for other in (0, size // 2, size + 4096):
            with pytest.raises(OSError):
                os.ftruncate(fd, other)
    with mmap.mmap(peer.fds[0], os.fstat(peer.fds[0]).st_size) as data:
        data[:] = b"\xff" * len(data)  # its own slots: nobody else's
    peer.close()


def test_the_wake_descriptor_at_its_limit(honest):
    peer = Peer(honest).send(hello())
    peer.answer()
    os.set_blocking(peer.fds[2], False)
    for _ in range(1000):
        try:
            os.write(peer.fds[2], struct.pack("<Q", 2**64 - 2))
        except BlockingIOError:
            pass
    peer.close()


def test_a_wake_descriptor_that_blocks_and_is_emptied_by_the_peer(honest):
    """The peer holds the same open file: it can make it block, and take what the sidecar was about to read."""
    peer = Peer(honest).send(hello())
    assert peer.answer()[0] == WELCOME
    wake = peer.fds[2]
    os.set_blocking(wake, True)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        for _ in range(200):
            os.write(wake, struct.pack("<Q", 1))
            os.set_blocking(wake, False)
            try:
                os.read(wake, 8)
            except BlockingIOError:
                pass
            os.set_blocking(wake, True)
        assert peer.send(head(STATS_ASK)).answer()[0] == STATS
    peer.close()


def test_who_comes_after_a_hostile_peer_gets_the_right_batches(world):
    sidecar, _ = world
    keys = feed.small(fields={"image": {"ops": [{"random_resized_crop": 48}]}, "label": None})
    peer = Peer(sidecar).send(hello())
    peer.answer()
    with mmap.mmap(peer.fds[1], CONTROL_BYTES) as page:
        page[:] = b"\xff" * CONTROL_BYTES
    peer.close()
    with headrace.Loader(sidecar.address, rank=0, world=2) as a, headrace.Loader(sidecar.address, rank=1, world=2) as b:
        halves = [[(x.records.tolist(), x["image"].tobytes()) for _, x in zip(range(20), loader)] for loader in (a, b)]
    with headrace.Loader(keys) as loader:
        for p, q, whole in zip(*halves, loader):
            assert p[0] + q[0] == whole.records.tolist() and p[1] + q[1] == whole["image"].tobytes()
