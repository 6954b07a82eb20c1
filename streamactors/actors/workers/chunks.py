"""Chunks as bytes: the elements that go to a worker process and come back.

Elements are of the codec's types, NumPy arrays and scalars, or Arrow arrays, batches and tables; every other type is refused by name. A chunk is
encoded in the first form that fits:

    TUPLES   tuples of plain values, as msgpack arrays without a step in Python for each tuple
    BYTES    long byte strings: their lengths, then the strings as they are
    VALUES   everything else, as msgpack
    ARRAYS   as VALUES, then the buffers of the arrays among the values

The layout is a byte for the form, the length of the header, the header in msgpack, then the buffers. Buffers are sent without a copy."""

from __future__ import annotations

import sys
from itertools import chain
from struct import Struct
from typing import Any, Final

import msgpack

from streamactors.actors.workers.frames import Buffer, Frame
from streamactors.codec import FIRST_FREE, CodecError, dumps, loads

_START: Final = Struct("<BI")
_TUPLES, _BYTES, _VALUES, _ARRAYS = range(4)
_PLAIN: Final = frozenset({int, float, str, bytes, bool, type(None)})
_LONG: Final = 2_048
"""Byte strings of this length on average are sent as buffers."""
PIECE_BYTES: Final = 512 * 1024
"""Longer frames would leave the caches of the processor between one copy and the next."""
_ARRAY, _SCALAR, _ARROW = FIRST_FREE, FIRST_FREE + 1, FIRST_FREE + 2


def pieces(chunk: list[Any]) -> list[list[Any]]:
    """Return the chunk cut into chunks of about `PIECE_BYTES`, as far as long byte strings tell."""
    if set(map(type, chunk)) != {bytes}:
        return [chunk]
    n = max(1, PIECE_BYTES * len(chunk) // max(1, sum(map(len, chunk))))
    return [chunk[i : i + n] for i in range(0, len(chunk), n)]


def encode(chunk: list[Any]) -> list[Buffer]:
    """Return the chunk as buffers. Raises CodecError, which names the type, for an element that cannot go to another process."""
    kinds = set(map(type, chunk))
    if kinds == {tuple} and _PLAIN.issuperset(map(type, chain.from_iterable(chunk))):
        try:
            return _with_start(_TUPLES, msgpack.packb(chunk))
        except (OverflowError, ValueError, UnicodeError):
            pass  # an integer beyond 64 bits, or a string that is not UTF-8: the codec handles it, or raises an error
    elif kinds == {bytes}:
        lengths = list(map(len, chunk))
        if sum(lengths) >= _LONG * len(chunk):
            return [*_with_start(_BYTES, msgpack.packb(lengths)), *chunk]
    buffers: list[Buffer] = []
    head = dumps(chunk, lambda value: _to_extension(value, buffers))
    if not buffers:
        return _with_start(_VALUES, head)
    return [*_with_start(_ARRAYS, dumps([head, [memoryview(buffer).nbytes for buffer in buffers]])), *buffers]


def chunk_of(frame: Frame) -> list[Any]:
    """Return the chunk that a frame brings. Raises CodecError if its payload is not one."""
    parts = frame.parts
    if parts is not None and parts[0][0] == _BYTES:
        return parts[2:]
    return decode(frame.payload)


def decode(data: memoryview) -> list[Any]:
    """Return the chunk that `encode` wrote. Arrays refer to `data` where they can. Raises CodecError for other bytes."""
    try:
        form, length = _START.unpack_from(data)
        head, rest = data[_START.size : _START.size + length], data[_START.size + length :]
        if form == _TUPLES:
            return list(msgpack.unpackb(head, use_list=False))
        if form == _BYTES:
            return [bytes(part) for part in _cut(rest, msgpack.unpackb(head))]
    except CodecError:
        raise
    except Exception as error:
        raise CodecError(f"{bytes(data[:40])!r}… is not a chunk: {error}") from error
    parts: list[memoryview] = []
    if form == _ARRAYS:
        head, lengths = loads(head)
        parts = _cut(rest, lengths)
    values: list[Any] = loads(head, lambda code, data: _from_extension(code, data, parts))
    return values


def _with_start(form: int, head: bytes) -> list[Buffer]:
    return [_START.pack(form, len(head)), head]


def _cut(data: memoryview, lengths: list[int]) -> list[memoryview]:
    parts = []
    at = 0
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    if at != len(data):
        raise CodecError(f"a chunk with {len(data)} bytes of buffers, but its header says {at}")
    return parts


# ── arrays ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _to_extension(value: Any, buffers: list[Buffer]) -> msgpack.ExtType | None:
    library = type(value).__module__.partition(".")[0]
    if library == "numpy":
        return _of_numpy(value, buffers)
    if library == "pyarrow":
        return _of_arrow(value, buffers)
    return None


def _of_numpy(value: Any, buffers: list[Buffer]) -> msgpack.ExtType | None:
    numpy = sys.modules["numpy"]
    is_scalar = isinstance(value, numpy.generic)
    if (type(value) is not numpy.ndarray and not is_scalar) or value.dtype.hasobject:
        return None
    kind = numpy.lib.format.dtype_to_descr(value.dtype)
    if is_scalar:
        return msgpack.ExtType(_SCALAR, dumps([kind, value.tobytes()]))
    by_column = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
    flat = numpy.ascontiguousarray(value.T if by_column else value)
    buffers.append(memoryview(flat.reshape(-1).view(numpy.uint8)) if flat.size and flat.itemsize else b"")
    return msgpack.ExtType(_ARRAY, dumps([kind, list(value.shape), by_column, len(buffers) - 1]))


def _of_arrow(value: Any, buffers: list[Buffer]) -> msgpack.ExtType | None:
    import pyarrow

    kind = type(value).__name__
    if isinstance(value, pyarrow.RecordBatch | pyarrow.Table):
        whole = value
    elif isinstance(value, pyarrow.Array):
        kind, whole = "Array", pyarrow.RecordBatch.from_arrays([value], ["values"])
    elif isinstance(value, pyarrow.ChunkedArray):
        whole = pyarrow.Table.from_arrays([value], ["values"])
    else:
        return None
    out = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(out, whole.schema) as writer:
        writer.write(whole)
    buffers.append(memoryview(out.getvalue()))
    return msgpack.ExtType(_ARROW, dumps([kind, len(buffers) - 1]))


def _from_extension(code: int, data: bytes, parts: list[memoryview]) -> Any:
    if code == _ARROW:
        import pyarrow

        kind, index = loads(data)
        reader = pyarrow.ipc.open_stream(pyarrow.py_buffer(parts[index]))
        if kind in ("Array", "RecordBatch"):
            batch = reader.read_next_batch()
            return batch.column(0) if kind == "Array" else batch
        table = reader.read_all()
        return table.column(0) if kind == "ChunkedArray" else table
    import numpy

    if code == _SCALAR:
        kind, raw = loads(data)
        return numpy.frombuffer(raw, numpy.lib.format.descr_to_dtype(kind))[0]
    if code == _ARRAY:
        kind, shape, by_column, index = loads(data)
        flat = numpy.frombuffer(parts[index], numpy.lib.format.descr_to_dtype(kind))
        return flat.reshape(shape[::-1]).T if by_column else flat.reshape(shape)
    raise CodecError(f"extension type {code} is unknown")
