"""Where less is allowed (no io_uring, not root, read-only root, small /dev/shm, one core) the same batches
come."""
import errno
import json
import os
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
import feed  # noqa: E402
import headrace  # noqa: E402
import sandbox  # noqa: E402

# A trainer with a private sidecar: what it was fed and what fed it.
SCRIPT = """
import json, os, sys
sys.path[:0] = sys.argv[2:4]
sys.dont_write_bytecode = True
import tempfile
tempfile.mkdtemp = lambda **_: "/nonexistent/x"  # the library's scratch folder is of no use here
import pathlib
pathlib.Path.chmod = lambda *_: None
import feed, headrace
rows = {}
for name, keys in json.loads(sys.argv[1]).items():
    with headrace.Loader(keys) as loader:
        rows[name] = feed.take(loader, 2 * len(loader))
        stats = loader.stats()
print(json.dumps([rows, stats["workers"], stats["reader"]]))
"""


def pipelines():
    images = feed.small(last="wrap", fields={"image": {"ops": [{"random_resized_crop": 64}, "hflip"]}, "label": None})
    mixed = feed.conf(feed.synth("mixed", 12), batch=4, fields={
        "image": {"output": {"ragged": True}}, "audio": {"clip": {"seconds": 0.5}},
        "video": {"clip": {"frames": 2}, "ops": [{"resize": [32, 32]}]}, "caption": None, "label": None})
    return {"images": images, "mixed": mixed, "direct": {**images, "io": "direct"}}


@pytest.fixture(scope="module")
def want():
    rows = {}
    for name, keys in pipelines().items():
        with headrace.Loader(keys) as loader:
            rows[name] = [list(row) for row in feed.take(loader, 2 * len(loader))]
    return rows


def inside(box, **kw):
    argv = [sys.executable, "-c", SCRIPT, json.dumps(pipelines()), feed.ROOT / "python", feed.ROOT / "tests" / "lib"]
    r = box.run(argv, **kw)
    assert r.returncode == 0, r.stderr[-3000:]
    return json.loads(r.stdout)


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.ENOSYS])
@pytest.mark.parametrize("call", ["setup", "enter", "register"])
def test_without_io_uring(want, refusal, call):
    with sandbox.no_uring(refusal, call) as box:
        rows, _, reader = inside(box)
        assert rows == want
        assert reader.startswith("preadv"), reader


VISIBLE = [feed.ROOT, Path(feed.BIN).parent, Path(os.environ["HEADRACE_LIB"]).parent, feed.SCRATCH, sys.prefix,
           sys.base_prefix, Path(np.__file__).parents[1]]


def reachable(box):
    for path in (feed.BIN, os.environ["HEADRACE_LIB"], sys.executable, feed.SCRATCH, np.__file__):
        if box.run(["test", "-r", path]).returncode:
            pytest.skip(f"uid 65534 cannot reach {path}")


def test_confined_as_containers_are(want):
    with sandbox.confined(visible=VISIBLE) as box:
        reachable(box)
        rows, _, reader = inside(box)
        assert rows == want
        print(reader)


def test_confined_and_without_io_uring(want):
    with sandbox.confined(visible=VISIBLE) as outer, sandbox.no_uring() as inner:
        reachable(outer)
        box = sandbox.Box(lambda argv: outer.wrap(inner.wrap(argv)), {**outer.env, **inner.env})
        rows, _, reader = inside(box)
        assert rows == want and reader.startswith("preadv")


def test_one_core_is_one_worker(want):
    with sandbox.one_core() as box:
        rows, workers, _ = inside(box)
        assert rows == want
        assert workers == 1


def test_few_descriptors(want):
    """32 files may be open; a dataset of one shard needs few."""
    box = sandbox.Box(lambda argv: ["prlimit", "--nofile=32:32", *argv])
    assert inside(box)[0] == want


def test_a_sidecar_with_no_standard_streams():
    """As some supervisors start things: 0, 1 and 2 are closed."""
    path = feed.SCRATCH / "closed"
    conf = feed.write_conf(feed.SCRATCH / "closed.json", feed.small())
    pid = os.fork()
    if pid == 0:
        os.closerange(0, 3)
        os.execv(feed.BIN, [feed.BIN, "serve", str(conf), "--socket", str(path)])
    try:
        with headrace.Loader(f"unix:{path}", timeout=10) as loader:
            rows = feed.take(loader, 10)
        with headrace.Loader(feed.small()) as loader:
            assert feed.take(loader, 10) == rows
    finally:
        os.kill(pid, 15)
        assert os.waitpid(pid, 0)[1] == 0


def test_a_trainer_with_no_standard_streams():
    """Its sockets get those numbers, and a private sidecar is started from there."""
    with headrace.Loader(feed.small()) as loader:
        want = feed.take(loader, 10)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.closerange(0, 3)
            with headrace.Loader(feed.small(), timeout=10) as loader:
                code = 0 if feed.take(loader, 10) == want else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
