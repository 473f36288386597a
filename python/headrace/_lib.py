"""libheadrace through ctypes: where it is, and the C declarations of <headrace/client.h>."""

from __future__ import annotations

import ctypes
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any, NoReturn, Optional

from . import errors

_HERE = Path(__file__).resolve().parent
_NAME = "libheadrace.so"
MAX_DIMS = 8
NO_RECORD = 2**64 - 1


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("rank", ctypes.c_int32),
        ("world", ctypes.c_int32),
        ("state", ctypes.c_char_p),
        ("force_state", ctypes.c_int32),
        ("shared", ctypes.c_int32),
        ("timeout_ms", ctypes.c_int64),
        ("client_name", ctypes.c_char_p),
        ("no_wait", ctypes.c_int32),
        ("join_now", ctypes.c_int32),
        ("seek_wait_ms", ctypes.c_int64),
    ]


class Array(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("layout", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("dims", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_DIMS),
        ("strides", ctypes.c_int64 * MAX_DIMS),
        ("writable", ctypes.c_int32),
        ("ragged", ctypes.c_int32),
        ("offsets", ctypes.c_void_p),
        ("shapes", ctypes.c_void_p),
        ("sample_dims", ctypes.c_int32),
        ("field_type", ctypes.c_char_p),
    ]


class BatchInfo(ctypes.Structure):
    _fields_ = [
        ("epoch", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("sequence", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("global_count", ctypes.c_uint32),
        ("first", ctypes.c_uint32),
        ("field_count", ctypes.c_uint32),
        ("bad_count", ctypes.c_uint32),
        ("last_of_epoch", ctypes.c_int32),
        ("end_of_run", ctypes.c_int32),
        ("records", ctypes.c_void_p),
        ("sources", ctypes.c_void_p),
        ("valid", ctypes.c_void_p),
        ("state", ctypes.c_char_p),
        ("slot_data", ctypes.c_void_p),
        ("slot_bytes", ctypes.c_uint64),
    ]


class ClientInfo(ctypes.Structure):
    _fields_ = [
        ("rank", ctypes.c_uint32),
        ("world", ctypes.c_uint32),
        ("slot_count", ctypes.c_uint32),
        ("slot_bytes", ctypes.c_uint64),
        ("batch", ctypes.c_uint64),
        ("dataset_records", ctypes.c_uint64),
        ("steps_per_epoch", ctypes.c_uint64),
        ("dataset_digest", ctypes.c_char_p),
        ("plan_digest", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("data_bytes", ctypes.c_uint64),
        ("writable", ctypes.c_int32),
    ]


def _library_path() -> str:
    beside = _HERE / _NAME
    if beside.exists():
        return str(beside)
    return os.environ.get("HEADRACE_LIB", _NAME + ".0")


def find_binary() -> Optional[str]:
    """The headrace binary: beside the package, $HEADRACE_BIN, this Python's scripts, PATH."""
    scripts = sysconfig.get_path("scripts")
    for candidate in (
        str(_HERE / "headrace"),
        os.environ.get("HEADRACE_BIN"),
        os.path.join(scripts, "headrace") if scripts else None,
        _installed_script(),
    ):
        if candidate and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return shutil.which("headrace")


def _installed_script() -> Optional[str]:
    """Where pip put the binary when it is not the usual place (--user, --target, --prefix)."""
    try:
        from importlib.metadata import files

        for path in files("headrace") or ():
            if path.name == "headrace" and path.parent.name == "bin":
                return str(path.locate())
    except Exception:  # no metadata: run from a source tree
        pass
    return None


def _load() -> Any:
    path = _library_path()
    try:
        return ctypes.CDLL(path), ctypes.PyDLL(path)
    except OSError as e:
        raise ImportError(
            f"cannot load {path}: {e} (set HEADRACE_LIB to the path of {_NAME}, or reinstall headrace)"
        ) from None


_blocking, _quick = _load()

_P = ctypes.c_void_p
_I = ctypes.c_int


def _declare(lib: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(lib, name)
    function.restype = result
    function.argtypes = list(arguments)
    return function


# The interpreter lock is given up in calls that can wait, kept in those that never do.
client_open = _declare(
    _blocking, "hr_client_open", _I, ctypes.c_char_p, ctypes.POINTER(Options), ctypes.POINTER(_P)
)
client_spawn = _declare(
    _blocking,
    "hr_client_spawn",
    _I,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.POINTER(Options),
    ctypes.POINTER(_P),
)
client_ready = _declare(_blocking, "hr_client_ready", _I, _P, ctypes.c_int64)
client_next = _declare(
    _blocking, "hr_client_next", _I, _P, ctypes.c_int64, ctypes.POINTER(_P)
)
client_poll = _declare(_quick, "hr_client_next", _I, _P, ctypes.c_int64, ctypes.POINTER(_P))
client_seek = _declare(_blocking, "hr_client_seek", _I, _P, ctypes.c_char_p, _I)
client_seek_epoch = _declare(_blocking, "hr_client_seek_epoch", _I, _P, ctypes.c_uint64)
client_stats = _declare(_blocking, "hr_client_stats", ctypes.c_char_p, _P)
client_close = _declare(_blocking, "hr_client_close", None, _P)
client_state = _declare(_quick, "hr_client_state", ctypes.c_char_p, _P)
client_info = _declare(_quick, "hr_client_info", None, _P, ctypes.POINTER(ClientInfo))
client_wait_ns = _declare(_quick, "hr_client_wait_ns", ctypes.c_uint64, _P)
client_error = _declare(_quick, "hr_client_error", ctypes.c_char_p, _P)
client_error_detail = _declare(
    _quick,
    "hr_client_error_detail",
    _I,
    _P,
    ctypes.POINTER(_I),
    ctypes.POINTER(ctypes.c_char_p),
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_char_p),
)
client_version = _declare(_quick, "hr_client_version", ctypes.c_char_p)
batch_info = _declare(_quick, "hr_batch_info", None, _P, ctypes.POINTER(BatchInfo))
batch_field = _declare(
    _quick, "hr_batch_field", _I, _P, ctypes.c_char_p, ctypes.POINTER(Array)
)
batch_field_at = _declare(
    _quick, "hr_batch_field_at", _I, _P, ctypes.c_uint32, ctypes.POINTER(Array)
)
batch_release = _declare(_quick, "hr_batch_release", None, _P)
batch_hold_memory = _declare(_quick, "hr_batch_hold_memory", _P, _P)
batch_drop_memory = _declare(_quick, "hr_batch_drop_memory", None, _P)


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def last_error(client: Any) -> errors.Error:
    """The last error of a client, or of this thread (None)."""
    shard, field = ctypes.c_char_p(), ctypes.c_char_p()
    record, code = ctypes.c_uint64(NO_RECORD), _I()
    client_error_detail(
        client,
        ctypes.byref(code),
        ctypes.byref(shard),
        ctypes.byref(record),
        ctypes.byref(field),
    )
    return errors.make(
        code.value,
        _text(client_error(client)),
        _text(shard.value) or None,
        None if record.value == NO_RECORD else record.value,
        _text(field.value) or None,
    )


def fail(client: Any) -> NoReturn:
    raise last_error(client)
