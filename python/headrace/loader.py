"""The loader: attaches to a sidecar, or starts a private one, and gives out its batches."""

from __future__ import annotations

import ctypes
import json
import math
import operator
import os
import threading
import time
import weakref
from collections import deque
from types import TracebackType
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, NoReturn, Optional, Tuple, Type, Union

from . import _lib
from .batch import Batch, _Lease
from .errors import ConfigError, Error, UsageError

State = Dict[str, Any]

# Waits are cut into slices so that Python sees signals (Ctrl-C) in between.
_SLICE_MS = 100
_END, _TIMEOUT, _ALL_LEASED = -25, -18, -22


def parse_state(text: Optional[bytes]) -> State:
    state = json.loads(text) if text else {}
    return state if isinstance(state, dict) else {}


def _timeout_ms(seconds: float) -> int:
    """-1 = for ever, as the library has it."""
    if math.isnan(seconds) or seconds < 0:
        raise UsageError(f"timeout must be seconds, or float('inf'), not {seconds!r}")
    return int(seconds * 1000) if seconds < 1e12 else -1


def _number(name: str, value: Optional[int]) -> int:
    """-1 = from the environment."""
    if value is None:
        return -1
    number = operator.index(value)
    if not -1 <= number < 2**31:
        raise UsageError(f"{name} must be 0 or more, not {number}")
    return number


class _Asking:
    """Who asks for the lock says so: a thread that waits for a batch gives way between its slices."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: List[None] = []

    def __enter__(self) -> None:
        self._calls.append(None)

    def __exit__(self, *_: object) -> None:
        self._calls.pop()

    def give_way(self) -> None:
        if self._calls:
            time.sleep(0.001)


_loaders: "weakref.WeakSet[Loader]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The threads that held locks do not exist here."""
    for loader in _loaders:
        loader._unlock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _state_text(state: Optional[Mapping[str, Any]]) -> Optional[bytes]:
    if state is not None and not isinstance(state, Mapping):
        raise TypeError(f"a state is what state_dict() gave, a dict, not {type(state).__name__}")
    return json.dumps(dict(state), separators=(",", ":")).encode() if state else None


class _Epoch(Iterator[Batch]):
    """The rest of the current epoch."""

    __slots__ = ("_loader", "_done")

    def __init__(self, loader: "Loader") -> None:
        self._loader = loader
        self._done = False

    def __next__(self) -> Batch:
        batch = None if self._done else self._loader._next()
        if batch is None:
            self._done = True
            raise StopIteration
        self._done = batch.last_of_epoch
        return batch


class Loader:
    """Batches of one rank of a stream.

    config:      path of a pipeline file, or a dict of the same shape: starts a private sidecar,
                 which ends with this process however that ends. Or "unix:/path/to.sock": attaches
                 to one that runs.
    rank, world: this trainer's share; by default from the launcher's environment (RANK and
                 WORLD_SIZE, SLURM_*, OMPI_*, PMI_*), else 0 of 1; a rank above 0 without a size is refused
    state:       a state_dict() to go on from
    timeout:     seconds to wait for the sidecar to answer, and for a lost one to come back;
                 float("inf") waits for ever
    shared:      attach as a read-only replica of a stream that others read too. It gets every batch
                 from its own state on; the others wait for the one that is furthest behind
    join_now:    a replica without a state starts where the others are, not at the beginning
    force_state: accept a state of another dataset or plan

    Iterating gives the batches of one epoch; the next ``for`` goes on with the next epoch. After a
    ``break`` it goes on with the rest of the same one. One thread at a time takes batches; batches
    may be used and dropped in any thread. A forked child must open its own loader.
    """

    def __init__(
        self,
        config: Union[str, "os.PathLike[str]", Mapping[str, Any]],
        *,
        rank: Optional[int] = None,
        world: Optional[int] = None,
        state: Optional[Mapping[str, Any]] = None,
        timeout: float = 60,
        shared: bool = False,
        join_now: bool = False,
        force_state: bool = False,
    ) -> None:
        self._handle: Optional[int] = None
        self._unlock()
        self._timeout = timeout
        _loaders.add(self)
        self._pending: Deque[Tuple[Any, _Lease]] = deque()
        options = _lib.Options(
            struct_bytes=ctypes.sizeof(_lib.Options),
            rank=_number("rank", rank),
            world=_number("world", world),
            state=_state_text(state),
            force_state=force_state,
            shared=shared,
            join_now=join_now,
            timeout_ms=_timeout_ms(timeout),
            client_name=b"headrace.Loader",
            no_wait=1,
            seek_wait_ms=_SLICE_MS,
        )
        self._out = ctypes.c_void_p()
        self._begin(config, options)
        try:
            self._wait_ready()
        except BaseException:
            self.close()
            raise

    def _unlock(self) -> None:
        # A signal handler may come back to it in the same thread.
        self._lock = threading.RLock()
        self._asking = _Asking()

    def _begin(self, config: Any, options: _lib.Options) -> None:
        out = ctypes.c_void_p()
        if isinstance(config, Mapping):
            code = self._spawn(json.dumps(dict(config)), options, out)
        else:
            text = os.fspath(config)
            if not isinstance(text, str):
                raise UsageError(f"config must be a path, a dict or an address, not {config!r}")
            if text.startswith(("unix:", "fd:")):
                code = _lib.client_open(text.encode(), ctypes.byref(options), ctypes.byref(out))
            elif not os.path.exists(text):
                raise ConfigError(
                    f"no pipeline file '{text}' (write one with 'headrace init DATASET', or give "
                    "'unix:/path' to attach to a running sidecar)"
                )
            else:
                code = self._spawn(text, options, out)
        if code < 0:
            _lib.fail(None)
        self._handle = out.value

    @staticmethod
    def _spawn(config: str, options: _lib.Options, out: ctypes.c_void_p) -> int:
        binary = _lib.find_binary()
        return int(
            _lib.client_spawn(
                binary.encode() if binary else None,
                config.encode(),
                ctypes.byref(options),
                ctypes.byref(out),
            )
        )

    def _wait_ready(self) -> None:
        while True:
            code = _lib.client_ready(self._handle, _SLICE_MS)
            if code == 0:
                break
            if code != _TIMEOUT:
                _lib.fail(self._handle)
        self._writable = bool(self._facts().writable)

    def _check(self) -> int:
        if self._handle is None:
            raise UsageError("the loader is closed")
        return self._handle

    def _facts(self) -> _lib.ClientInfo:
        info = _lib.ClientInfo()
        with self._asking, self._lock:
            _lib.client_info(self._check(), ctypes.byref(info))
        return info

    # -- batches --

    def __iter__(self) -> Iterator[Batch]:
        self._check()
        return _Epoch(self)

    def _next(self) -> Optional[Batch]:
        """The next batch, or None at the end of the run."""
        while True:
            with self._lock:
                if self._pending:
                    self._drop_finished()
                code = _lib.client_next(self._check(), _SLICE_MS, ctypes.byref(self._out))
                if code == 0:
                    return Batch(self._out.value or 0, self, self._writable)
                if code == _END:
                    return None
                if code == _ALL_LEASED and self._pending:
                    self._pending.popleft()[0].synchronize()
                elif code != _TIMEOUT:
                    _lib.fail(self._handle)
            self._asking.give_way()

    def _hold_until(self, event: Any, lease: _Lease) -> None:
        with self._asking, self._lock:
            self._pending.append((event, lease))

    def _drop_finished(self) -> None:
        while self._pending and self._pending[0][0].query():
            self._pending.popleft()

    def __len__(self) -> int:
        """Batches in an epoch."""
        return int(self._facts().steps_per_epoch)

    # -- state --

    def state_dict(self) -> State:
        """The checkpoint after the last batch handed out: a few integers and strings, the same on
        every rank and at any number of ranks."""
        with self._asking, self._lock:
            return parse_state(_lib.client_state(self._check()))

    def load_state_dict(self, state: Mapping[str, Any], *, force: bool = False) -> None:
        """Goes on from a checkpoint; {} is the beginning. One of another dataset or plan raises
        StateError, unless forced. After TimeoutError or Ctrl-C it is still under way."""
        text = _state_text(state) or b""
        self._seek(lambda: _lib.client_seek(self._check(), text, int(force)))

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of an epoch; nothing is lost when that is the one that comes next."""
        number = operator.index(epoch)
        if not 0 <= number < 2**64:
            raise UsageError(f"there is no epoch {epoch}")
        self._seek(lambda: _lib.client_seek_epoch(self._check(), number))

    def _seek(self, begin: Callable[[], int]) -> None:
        """One that times out or is interrupted stays under way: the next batch is from there."""
        until = time.monotonic() + self._timeout + _SLICE_MS / 1000
        with self._asking, self._lock:
            code = begin()
            while code == _TIMEOUT and time.monotonic() < until:
                code = _lib.client_ready(self._check(), _SLICE_MS)
            if code < 0:
                _lib.fail(self._handle)

    # -- facts --

    def stats(self) -> Dict[str, Any]:
        """What the sidecar has counted since it began, and this trainer's ring now.

        samples, batches, read_* and bad_* are of all trainers; ready, leased and free_slots are slots of this one,
        *_ns nanoseconds. docs/tutorial.md, "Why is my GPU idle?", says what grows when."""
        with self._asking, self._lock:
            text = _lib.client_stats(self._check())
            if text is None:
                _lib.fail(self._handle)
            result = json.loads(text)
        return result if isinstance(result, dict) else {"stats": result}

    @property
    def wait_seconds(self) -> float:
        """Time spent waiting for batches so far: the part of training that is input-bound."""
        with self._asking, self._lock:
            return int(_lib.client_wait_ns(self._check())) / 1e9

    @property
    def rank(self) -> int:
        return int(self._facts().rank)

    @property
    def world(self) -> int:
        return int(self._facts().world)

    @property
    def batch_size(self) -> int:
        """The global batch, all ranks together."""
        return int(self._facts().batch)

    @property
    def slots(self) -> int:
        """Batches that can be ready or held at once."""
        return int(self._facts().slot_count)

    @property
    def dataset_records(self) -> int:
        return int(self._facts().dataset_records)

    @property
    def dataset_digest(self) -> str:
        return bytes(self._facts().dataset_digest).decode()

    @property
    def plan_digest(self) -> str:
        return bytes(self._facts().plan_digest).decode()

    # -- end --

    def close(self) -> None:
        """Ends the session, and a private sidecar. Arrays that are still around stay readable."""
        with self._asking, self._lock:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            for event, _ in self._pending:
                event.synchronize()
            self._pending.clear()
            _lib.client_close(handle)

    def __enter__(self) -> "Loader":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except (Error, AttributeError, TypeError):  # half-built, or the interpreter is going down
            pass

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Loader cannot be pickled or copied: open one in each process")

    def __repr__(self) -> str:
        if self._handle is None:
            return "<headrace.Loader, closed>"
        return f"<headrace.Loader rank {self.rank} of {self.world}, {len(self)} batches an epoch>"
