"""Chunks on their way to another process: each kind of element arrives as it was, and takes the shortest form."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.actors.workers.chunks import PIECE_BYTES, chunk_of, decode, encode, pieces
from streamactors.actors.workers.frames import Frame
from streamactors.codec import CodecError

PLAIN = st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.booleans(), st.none())
TUPLES, BYTES, VALUES, ARRAYS = range(4)


def there(chunk: list[Any]) -> tuple[int, list[Any]]:
    """Return the form that the chunk takes, and what arrives."""
    data = b"".join(map(bytes, encode(chunk)))
    return data[0], decode(memoryview(data))


@given(st.lists(st.one_of(PLAIN, st.tuples(PLAIN, PLAIN), st.lists(PLAIN), st.dictionaries(st.text(), PLAIN))))
def test_a_chunk_arrives_as_it_was(chunk: list[Any]) -> None:
    assert there(chunk)[1] == chunk


@given(st.lists(st.tuples(st.integers(-(2**63), 2**64 - 1), st.text(alphabet="äbc"), st.binary()), min_size=1))
def test_tuples_of_plain_values_go_together(chunk: list[Any]) -> None:
    assert there(chunk) == (TUPLES, chunk)


def test_what_is_no_plain_tuple_goes_one_by_one() -> None:
    for chunk in ([(1, [2])], [(1,), 2], [(2**64,)], [1, 2], [b"short"], []):
        assert there(chunk) == (VALUES, chunk)


def test_long_byte_strings_are_sent_as_they_are() -> None:
    long = [b"x" * 2_047, b"y" * 2_049, b""]
    assert there(long[:2]) == (BYTES, long[:2])
    assert there([*long[:1], b"y" * 2_048])[0] == VALUES
    buffers = encode(long[:2])
    assert [id(part) for part in buffers[2:]] == list(map(id, long[:2])), "no copy"


@given(st.lists(st.integers(0, 3 * PIECE_BYTES // 2), max_size=5))
def test_pieces_have_the_elements_in_order_and_about_the_same_size(lengths: list[int]) -> None:
    chunk = [bytes(length) for length in lengths]
    cut = pieces(chunk)
    assert [each for piece in cut for each in piece] == chunk
    if sum(lengths) <= PIECE_BYTES and chunk:
        assert cut == [chunk]


def test_only_byte_strings_are_cut() -> None:
    assert PIECE_BYTES == 512 * 1024
    quarter = bytes(PIECE_BYTES // 4)
    assert list(map(len, pieces([quarter] * 10))) == [4, 4, 2]
    assert list(map(len, pieces([bytes(3 * PIECE_BYTES)] * 2))) == [1, 1]
    assert len(pieces([quarter] * 10 + ["text"])) == 1  # type: ignore[list-item]


def test_a_frame_that_came_through_a_ring_keeps_its_buffers() -> None:
    long = [b"x" * 3_000, b"y" * 3_000]
    buffers = [bytes(each) for each in encode(long)]
    whole = memoryview(b"".join(buffers))
    assert chunk_of(Frame(1, 0, 0, memoryview(b""), buffers)) == long
    assert chunk_of(Frame(1, 0, 0, whole)) == long
    assert chunk_of(Frame(1, 0, 0, memoryview(b""), [bytes(part) for part in encode([1, 2])])) == [1, 2]


@pytest.mark.parametrize(
    "damaged", [b"", b"\x00", b"\x00\x05\x00\x00\x00\xc1", b"\x01\x01\x00\x00\x00\xc0", b"\x02\x01\x00\x00\x00\xc1"]
)
def test_other_bytes_are_no_chunk(damaged: bytes) -> None:
    with pytest.raises(CodecError):
        decode(memoryview(damaged))


def test_buffers_that_do_not_fit_the_header_are_refused() -> None:
    data = b"".join(map(bytes, encode([b"x" * 3_000])))
    for wrong in (data + b"!", data[:-1]):
        with pytest.raises(CodecError, match="bytes of buffers, but its header says 3000"):
            decode(memoryview(wrong))


def test_what_cannot_go_is_named() -> None:
    with pytest.raises(CodecError, match="lock"):
        encode([threading.Lock()])


def test_arrays_and_numbers_of_numpy_arrive_with_their_type_and_shape() -> None:
    np = pytest.importorskip("numpy")
    by_row = np.arange(6, dtype=">i4").reshape(2, 3)
    chunk = [
        by_row,
        np.asfortranarray(by_row),
        by_row[:, ::2],
        np.zeros((0, 3)),
        np.array(7.5),
        np.array([(1, 2.0)], dtype=[("a", "i2"), ("b", "f8")]),
        np.array(["ab", "c"]),
        np.float32(1.5),
        np.datetime64("2026-11-26"),
        "text",
    ]
    form, came = there(chunk)
    assert form == ARRAYS
    for sent, got in zip(chunk, came, strict=True):
        assert type(got) is type(sent)
        if not isinstance(sent, str):
            assert (got.dtype, got.shape) == (sent.dtype, sent.shape)
            assert (got == sent).all()
    assert came[1].flags.f_contiguous
    assert not came[1].flags.c_contiguous
    assert there([np.float32(1.5)])[0] == VALUES
    with pytest.raises(CodecError):
        encode([np.array([object()])])


def test_batches_tables_and_columns_of_arrow_arrive_as_what_they_were() -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", None]})
    table = pa.Table.from_batches([batch, batch])
    chunk = [batch, table, batch.column(1), table.column("a"), 5]
    form, came = there(chunk)
    assert form == ARRAYS
    assert [type(each) for each in came] == [type(each) for each in chunk]
    assert all(got == sent if sent == 5 else got.equals(sent) for sent, got in zip(chunk, came, strict=True))
    with pytest.raises(CodecError):
        encode([pa.schema([("a", pa.int64())])])
