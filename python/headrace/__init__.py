"""Headrace: batches from a data-loading sidecar, read in place.

    import headrace
    with headrace.Loader("train.yaml") as loader:
        for batch in loader:                       # one epoch
            x, y = batch["image"], batch["label"]  # numpy views of shared memory, no copy

Nothing is loaded here but numpy and libheadrace; torch and jax are imported when asked for.
"""

from .batch import Batch, Ragged, RaggedTensors
from .errors import (
    AllLeasedError,
    BudgetError,
    BusyError,
    CancelledError,
    ChecksumError,
    ConfigError,
    CorruptError,
    CrashedError,
    DetachedError,
    DecodeError,
    DeniedError,
    DisconnectedError,
    EndError,
    Error,
    ExistsError,
    ForkedError,
    FormatError,
    InternalError,
    IoError,
    LimitError,
    MissingError,
    NoMemoryError,
    NoSpaceError,
    NotFoundError,
    ProtocolError,
    ReleasedError,
    StateError,
    TimeoutError,
    TruncatedError,
    UnsupportedError,
    UsageError,
    VersionError,
)
from .loader import Loader

__version__ = "0.1.0"

__all__ = [
    "AllLeasedError",
    "Batch",
    "BudgetError",
    "BusyError",
    "CancelledError",
    "ChecksumError",
    "ConfigError",
    "CorruptError",
    "CrashedError",
    "DetachedError",
    "DecodeError",
    "DeniedError",
    "DisconnectedError",
    "EndError",
    "Error",
    "ExistsError",
    "ForkedError",
    "FormatError",
    "InternalError",
    "IoError",
    "LimitError",
    "Loader",
    "MissingError",
    "NoMemoryError",
    "NoSpaceError",
    "NotFoundError",
    "ProtocolError",
    "Ragged",
    "RaggedTensors",
    "ReleasedError",
    "StateError",
    "TimeoutError",
    "TruncatedError",
    "UnsupportedError",
    "UsageError",
    "VersionError",
    "__version__",
]
