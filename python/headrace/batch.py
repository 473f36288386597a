"""A batch: numpy views of the slot that the sidecar filled.

The slot belongs to this process until the last array over it is gone, or until release().
"""

from __future__ import annotations

import ctypes
import warnings
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

import numpy as np
import numpy.typing as npt

from . import _lib
from .errors import ReleasedError

if TYPE_CHECKING:
    from .loader import Loader

NDArray = npt.NDArray[Any]


def _bfloat16() -> Tuple[np.dtype[Any], bool]:
    """numpy has no bfloat16 of its own: that of ml_dtypes where it is installed, else the bits."""
    try:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16), True
    except ImportError:
        return np.dtype(np.uint16), False


_DTYPES: Dict[bytes, np.dtype[Any]] = {
    b"u8": np.dtype(np.uint8),
    b"i8": np.dtype(np.int8),
    b"u16": np.dtype(np.uint16),
    b"i16": np.dtype(np.int16),
    b"u32": np.dtype(np.uint32),
    b"i32": np.dtype(np.int32),
    b"i64": np.dtype(np.int64),
    b"u64": np.dtype(np.uint64),
    b"f16": np.dtype(np.float16),
    b"f32": np.dtype(np.float32),
    b"f64": np.dtype(np.float64),
    b"bool": np.dtype(np.bool_),
}


def _dtype(name: bytes) -> np.dtype[Any]:
    if name not in _DTYPES and name == b"bf16":
        _DTYPES[name] = _bfloat16()[0]  # on first use: importing ml_dtypes takes time
    return _DTYPES[name]


class _Lease:
    """One slot. Every array over it keeps this object alive; its end gives the slot back."""

    __slots__ = ("batch", "memory", "__weakref__")

    def __init__(self, batch: int) -> None:
        self.batch: Optional[int] = batch
        self.memory: Optional[int] = None

    def release(self) -> None:
        batch, self.batch = self.batch, None
        if batch:
            # Arrays may still be around: what they show will change, but must stay mapped.
            self.memory = _lib.batch_hold_memory(batch)
            _lib.batch_release(batch)

    def __del__(self) -> None:
        if self.batch:
            _lib.batch_release(self.batch)
        elif self.memory:
            _lib.batch_drop_memory(self.memory)


class _Memory:
    """A slot's bytes as numpy sees them: the end of every array's chain of bases. It is no buffer,
    so numpy cannot be talked into writing when it is read-only."""

    __slots__ = ("__array_interface__", "lease")

    def __init__(self, address: int, size: int, writable: bool, lease: _Lease) -> None:
        self.lease = lease
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (address, not writable),
        }


class Ragged(Sequence[NDArray]):
    """Samples of different lengths or shapes, one after the other in one array.

    values:  all elements; shape [total] (or [rows, ...] when the samples share trailing axes)
    offsets: int64 [count + 1]; sample i is elements offsets[i] .. offsets[i + 1]
    shapes:  int32 [count, dims] when samples have shapes of their own, else None

    ``ragged[i]`` is a view of sample i, in its shape. Text and ``str`` fields are uint8 values:
    see strings().
    """

    __slots__ = ("values", "offsets", "shapes", "dtype_name", "_flat")

    def __init__(
        self,
        values: NDArray,
        offsets: npt.NDArray[np.int64],
        shapes: Optional[npt.NDArray[np.int32]],
        dtype_name: str,
    ) -> None:
        self.values = values
        self.offsets = offsets
        self.shapes = shapes
        self.dtype_name = dtype_name
        self._flat = values.reshape(-1)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> NDArray: ...

    @overload
    def __getitem__(self, index: slice) -> List[NDArray]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[NDArray, List[NDArray]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = index + len(self) if index < 0 else index
        if not 0 <= i < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        sample = self._flat[self.offsets[i] : self.offsets[i + 1]]
        if self.shapes is not None:
            return sample.reshape(tuple(self.shapes[i]))
        return sample.reshape(-1, *self.values.shape[1:])

    def bytes(self) -> List[bytes]:
        """The samples as bytes objects (copies)."""
        return [self[i].tobytes() for i in range(len(self))]

    def strings(self, errors: str = "strict") -> List[str]:
        """The samples decoded as UTF-8 (copies)."""
        return [sample.decode("utf-8", errors) for sample in self.bytes()]

    def torch(self, *, copy: Optional[bool] = None) -> "RaggedTensors":
        """values, offsets and shapes as tensors; see Batch.torch()."""
        shapes = None if self.shapes is None else _to_torch(self.shapes, "i32", copy)
        return RaggedTensors(
            _to_torch(self.values, self.dtype_name, copy),
            _to_torch(self.offsets, "i64", copy),
            shapes,
        )

    def __repr__(self) -> str:
        return f"Ragged({len(self)} samples, {len(self._flat)} x {self.dtype_name})"


class RaggedTensors(NamedTuple):
    """A ragged field as tensors; torch.nested.nested_tensor_from_jagged(values, offsets) takes it."""

    values: Any
    offsets: Any
    shapes: Any


Value = Union[NDArray, Ragged]


def _to_torch(array: NDArray, dtype_name: str, copy: Optional[bool]) -> Any:
    import torch

    if copy is None:
        copy = not array.flags.writeable
    if copy:
        array = array.copy()
    source = array.view(np.int16) if dtype_name == "bf16" else array
    with warnings.catch_warnings():
        # Asked for with copy=False: a read-only array as a tensor, which must not be written.
        warnings.filterwarnings("ignore", message=".*not writable.*")
        tensor = torch.from_numpy(source)
    return tensor.view(torch.bfloat16) if dtype_name == "bf16" else tensor


def _to_jax(array: NDArray, dtype_name: str) -> Any:
    import jax.numpy as jnp

    source = array.view(np.uint16) if dtype_name == "bf16" else array
    try:
        result = jnp.from_dlpack(source)
    except Exception:  # read-only memory, or a dtype that DLPack of this numpy does not carry
        result = jnp.asarray(source)
    return result.view(jnp.bfloat16) if dtype_name == "bf16" else result


class Batch(Mapping[str, Value]):
    """A mapping from field name to a numpy array [count, ...] or Ragged, in the slot's memory.

    Arrays are writable when the stream feeds this process alone, and may be changed in place. A
    bfloat16 field is ml_dtypes.bfloat16 where that package is installed, else uint16 with the same
    bits; dtype(name) is "bf16" in both cases, and torch() and jax() give real bfloat16.

    epoch, step:   the batch's place; the same on every rank
    count:         samples here; global_count: of all ranks together; first: this rank's first
    bad_count:     samples that were substituted or masked here
    last_of_epoch: the next batch begins another epoch
    """

    __slots__ = (
        "epoch",
        "step",
        "sequence",
        "count",
        "global_count",
        "first",
        "bad_count",
        "last_of_epoch",
        "end_of_run",
        "_info",
        "_lease",
        "_loader",
        "_buffer",
        "_base",
        "_cache",
        "_names",
        "_state",
    )

    def __init__(self, handle: int, loader: "Loader", writable: bool) -> None:
        info = _lib.BatchInfo()
        _lib.batch_info(handle, ctypes.byref(info))
        self.epoch: int = info.epoch
        self.step: int = info.step
        self.sequence: int = info.sequence
        self.count: int = info.count
        self.global_count: int = info.global_count
        self.first: int = info.first
        self.bad_count: int = info.bad_count
        self.last_of_epoch = bool(info.last_of_epoch)
        self.end_of_run = bool(info.end_of_run)
        self._info = info
        self._loader = loader
        self._lease = _Lease(handle)
        memory = _Memory(info.slot_data, info.slot_bytes, writable, self._lease)
        self._buffer: NDArray = np.asarray(memory)
        self._base: int = info.slot_data
        self._cache: Dict[str, Value] = {}
        self._names: Optional[List[str]] = None
        self._state: Optional[bytes] = None

    # -- fields --

    def _check(self) -> int:
        handle = self._lease.batch
        if not handle:
            raise ReleasedError("the batch was released: take what you need before release()")
        return handle

    def _view(
        self, address: Optional[int], shape: Sequence[int], dtype: Any, strides: Any = None
    ) -> NDArray:
        if not address:
            return np.empty(shape, dtype)
        view: NDArray = np.ndarray(shape, dtype, self._buffer, address - self._base, strides)
        return view

    def _field(self, name: str) -> _lib.Array:
        array = _lib.Array()
        code = _lib.batch_field(self._check(), name.encode(), ctypes.byref(array))
        if code < 0:
            error = _lib.last_error(None)
            if error.code == -7:
                raise KeyError(f"{name!r} (fields: {', '.join(self.names())})")
            raise error
        return array

    def _make(self, name: str) -> Value:
        a = self._field(name)
        dtype = _dtype(a.dtype)
        if a.ragged:
            return self._make_ragged(a, dtype)
        dims = a.dims
        return self._view(a.data, a.shape[:dims], dtype, a.strides[:dims])

    def _make_ragged(self, a: _lib.Array, dtype: Any) -> Ragged:
        total = a.bytes // dtype.itemsize
        offsets = self._view(a.offsets, (self.count + 1,), np.int64)
        # Offsets end where the samples end; the room behind them is not data.
        used = min(int(offsets[-1]), total)
        values = self._view(a.data, (used,), dtype)
        if a.dims > 1:
            values = values.reshape(-1, *a.shape[1 : a.dims])
        shapes = None
        if a.sample_dims:
            shapes = self._view(a.shapes, (self.count, a.sample_dims), np.int32)
        return Ragged(values, offsets, shapes, a.dtype.decode())

    def __getitem__(self, name: str) -> Value:
        self._check()
        value = self._cache.get(name)
        if value is None:
            value = self._cache[name] = self._make(name)
        return value

    def names(self) -> List[str]:
        """Field names, in the order of the pipeline file."""
        if self._names is None:
            handle, array, names = self._check(), _lib.Array(), []
            for i in range(self._info.field_count):
                if _lib.batch_field_at(handle, i, ctypes.byref(array)) < 0:
                    _lib.fail(None)
                names.append(array.name.decode())
            self._names = names
        return self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return int(self._info.field_count)

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def dtype(self, name: str) -> str:
        """Headrace's name of a field's element type: "u8", "f16", "bf16" ..."""
        return bytes(self._field(name).dtype).decode()

    def layout(self, name: str) -> str:
        """Axis order of a field, "nchw" for example, or ""."""
        return bytes(self._field(name).layout).decode()

    # -- samples --

    @property
    def records(self) -> npt.NDArray[np.uint64]:
        """Record ids delivered, uint64 [count]: those of the substitutes where there were any."""
        self._check()
        return self._view(self._info.records, (self.count,), np.uint64)

    @property
    def sources(self) -> npt.NDArray[np.uint32]:
        """Which dataset of a mixture each sample is from, uint32 [count]."""
        self._check()
        return self._view(self._info.sources, (self.count,), np.uint32)

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """False for padding and masked samples, bool [count]."""
        self._check()
        return self._view(self._info.valid, (self.count,), np.bool_)

    @property
    def state(self) -> Dict[str, Any]:
        """The checkpoint that follows this batch: what Loader.state_dict() gave after it."""
        from .loader import parse_state

        if self._state is None:
            self._check()
            self._state = bytes(self._info.state)
        return parse_state(self._state)

    # -- other frameworks --

    def torch(self, *, copy: Optional[bool] = None) -> Dict[str, Any]:
        """The fields as torch tensors over the same memory; ragged ones as RaggedTensors.

        A shared stream is mapped read-only, and torch has no read-only tensors: an in-place
        operation on one would be a crash, not an error. There the tensors are private copies
        unless copy=False is given, which promises not to write.
        """
        out: Dict[str, Any] = {}
        for name in self.names():
            value = self[name]
            if isinstance(value, Ragged):
                out[name] = value.torch(copy=copy)
            else:
                out[name] = _to_torch(value, self.dtype(name), copy)
        return out

    def jax(self) -> Dict[str, Any]:
        """The fields as jax arrays, through DLPack without a copy where jax can; ragged ones as
        (values, offsets)."""
        out: Dict[str, Any] = {}
        for name in self.names():
            value = self[name]
            if isinstance(value, Ragged):
                out[name] = (_to_jax(value.values, value.dtype_name), _to_jax(value.offsets, "i64"))
            else:
                out[name] = _to_jax(value, self.dtype(name))
        return out

    def dlpack(self, name: str) -> NDArray:
        """An object with __dlpack__ and __dlpack_device__ over a field's memory (no copy), for any
        framework's from_dlpack(). A ragged field gives its values; bfloat16 its bits as uint16."""
        value = self[name]
        array = value.values if isinstance(value, Ragged) else value
        return array.view(np.uint16) if self.dtype(name) == "bf16" else array

    def to(self, device: Any) -> Dict[str, Any]:
        """The fields as torch tensors on a device.

        Copies to an accelerator are asynchronous; the slot stays leased until they are done, even
        when this batch is gone by then.
        """
        import torch

        target = torch.device(device)
        tensors = self.torch(copy=False)
        cuda = target.type == "cuda"

        def move(tensor: Any) -> Any:
            return tensor.to(target, non_blocking=True) if cuda else tensor.to(target, copy=True)

        out: Dict[str, Any] = {}
        for name, value in tensors.items():
            if isinstance(value, RaggedTensors):
                out[name] = RaggedTensors(*(None if t is None else move(t) for t in value))
            else:
                out[name] = move(value)
        if cuda:
            event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call, unused-ignore]
            event.record(torch.cuda.current_stream(target))
            self._loader._hold_until(event, self._lease)
        return out

    # -- end --

    @property
    def released(self) -> bool:
        return not self._lease.batch

    def release(self) -> None:
        """Gives the slot back now. Access through this batch raises ReleasedError from here on;
        arrays taken from it earlier stay readable, but show whatever the slot holds next."""
        self._lease.release()
        self._cache.clear()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Batch cannot be pickled or copied: copy its arrays")

    def __repr__(self) -> str:
        what = "released" if self.released else ", ".join(self.names())
        return f"<headrace.Batch epoch {self.epoch} step {self.step} [{self.count}]: {what}>"
