"""Errors, one class a row of the table in <headrace/errors.h>; a test keeps the two in step."""

from __future__ import annotations

import builtins
from typing import Dict, Optional, Type


class Error(Exception):
    """What the sidecar or the client library reports.

    ``str(error)`` is one line with the place and the way out.

    code:   the number in <headrace/errors.h>, negative
    shard:  name of the shard or file, or None
    record: record number in its dataset, or None
    field:  field name, or None
    """

    code: int = 0

    def __init__(
        self,
        text: str,
        *,
        code: Optional[int] = None,
        shard: Optional[str] = None,
        record: Optional[int] = None,
        field: Optional[str] = None,
    ) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code
        self.shard = shard
        self.record = record
        self.field = field

    def __str__(self) -> str:
        return str(self.args[0])


class UsageError(Error, ValueError):
    """HR_E_USAGE: wrong usage."""

    code = -1


class ConfigError(Error, ValueError):
    """HR_E_CONFIG: wrong configuration."""

    code = -2


class NoMemoryError(Error, MemoryError):
    """HR_E_NOMEM: out of memory."""

    code = -3


class InternalError(Error):
    """HR_E_INTERNAL: internal error."""

    code = -4


class UnsupportedError(Error):
    """HR_E_UNSUPPORTED: not supported here."""

    code = -5


class ExistsError(Error):
    """HR_E_EXISTS: already exists."""

    code = -6


class NotFoundError(Error, LookupError):
    """HR_E_NOT_FOUND: not found."""

    code = -7


class IoError(Error):
    """HR_E_IO: input/output error."""

    code = -8


class NoSpaceError(Error):
    """HR_E_NO_SPACE: no space left."""

    code = -9


class DeniedError(Error):
    """HR_E_DENIED: permission denied."""

    code = -10


class CorruptError(Error):
    """HR_E_CORRUPT: corrupt data."""

    code = -11


class ChecksumError(Error):
    """HR_E_CHECKSUM: checksum mismatch."""

    code = -12


class TruncatedError(Error):
    """HR_E_TRUNCATED: truncated data."""

    code = -13


class DecodeError(Error):
    """HR_E_DECODE: cannot be decoded."""

    code = -14


class FormatError(Error):
    """HR_E_FORMAT: unknown or unexpected format."""

    code = -15


class LimitError(Error):
    """HR_E_LIMIT: over a limit."""

    code = -16


class MissingError(Error):
    """HR_E_MISSING: value missing."""

    code = -17


class TimeoutError(Error, builtins.TimeoutError):
    """HR_E_TIMEOUT: timed out."""

    code = -18


class ProtocolError(Error):
    """HR_E_PROTOCOL: protocol violation."""

    code = -19


class VersionError(Error):
    """HR_E_VERSION: version mismatch."""

    code = -20


class StateError(Error, ValueError):
    """HR_E_STATE: state does not fit."""

    code = -21


class AllLeasedError(Error):
    """HR_E_ALL_LEASED: every slot is leased."""

    code = -22


class DisconnectedError(Error, ConnectionError):
    """HR_E_DISCONNECTED: sidecar is gone."""

    code = -23


class ReleasedError(Error):
    """HR_E_RELEASED: batch was released."""

    code = -24


class EndError(Error):
    """HR_E_END: end of data."""

    code = -25


class BudgetError(Error):
    """HR_E_BUDGET: too many bad records."""

    code = -26


class ForkedError(Error):
    """HR_E_FORKED: used after fork."""

    code = -27


class CancelledError(Error):
    """HR_E_CANCELLED: cancelled."""

    code = -28


class BusyError(Error):
    """HR_E_BUSY: busy."""

    code = -29


class CrashedError(Error):
    """HR_E_CRASHED: crashed a decoder."""

    code = -30


class DetachedError(Error):
    """HR_E_DETACHED: detached from its stream."""

    code = -31


BY_CODE: Dict[int, Type[Error]] = {
    kind.code: kind
    for kind in (
        UsageError,
        ConfigError,
        NoMemoryError,
        InternalError,
        UnsupportedError,
        ExistsError,
        NotFoundError,
        IoError,
        NoSpaceError,
        DeniedError,
        CorruptError,
        ChecksumError,
        TruncatedError,
        DecodeError,
        FormatError,
        LimitError,
        MissingError,
        TimeoutError,
        ProtocolError,
        VersionError,
        StateError,
        AllLeasedError,
        DisconnectedError,
        ReleasedError,
        EndError,
        BudgetError,
        ForkedError,
        CancelledError,
        BusyError,
        CrashedError,
        DetachedError,
    )
}


def make(
    code: int,
    text: str,
    shard: Optional[str] = None,
    record: Optional[int] = None,
    field: Optional[str] = None,
) -> Error:
    """The error of a code; an unknown one (of a newer sidecar) is a plain Error."""
    kind = BY_CODE.get(code, Error)
    return kind(text, code=code, shard=shard, record=record, field=field)
