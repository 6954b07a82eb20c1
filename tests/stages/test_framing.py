"""Frames of bytes: by delimiter, by length, JSON objects, lines of text. Where elements begin and end never changes a result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import BuildError, Flow, FramingError, Sink, Source
from streamactors.engine.logic import Logic
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.compression.zlib_streams import Gzip
from streamactors.stages.compression.zstd_frames import Zstd
from streamactors.stages.framing.delimiter import FramesByDelimiter
from streamactors.stages.framing.length_field import FramesByLength
from streamactors.stages.framing.text import Decode, Lines
from tests.stages.harness import Bench
from tests.stages.laws import RUNS, Case, check_run
from tests.stages.test_laws_simple import SLOW_OK


def run(source: Any) -> list[Any]:
    return source.run_with(Sink.to_list()).result(10)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Return the data cut at any places, with empty elements where a size is 0."""
    made, at = [], 0
    for size in sizes:
        made.append(data[at : at + size])
        at += size
    return [*made, data[at:]]


CUTS = st.lists(st.integers(0, 7), max_size=40)


# ── the laws, with integers as the harness sends them ─────────────────────────────────────────────────────────────────


def over_ints(stage: Any, encode: Any, decode: Any) -> Any:
    """Return the stage with integers for elements: `encode` makes bytes of each, `decode` a value of each result."""

    class OverInts(type(stage)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.__dict__.update(stage.__dict__)
            self.name = stage.label

        def logic(self) -> Logic:
            logic: CuttingLogic = super().logic()
            cut, finish = logic.cut, logic.finish

            def cut_ints(chunk: list[int], results: list[Any]) -> None:
                made: list[Any] = []
                cut([encode(x) for x in chunk], made)
                results += map(decode, made)

            def finish_ints(results: list[Any]) -> None:
                made: list[Any] = []
                finish(made)
                results += map(decode, made)

            logic.cut, logic.finish = cut_ints, finish_ints  # type: ignore[method-assign]
            logic._adapt = lambda chunk: None  # type: ignore[method-assign]  # integers have no length
            return logic

    return OverInts()


def ended(x: int) -> bytes:
    """An element of one or two bytes more than a number; every third ends a frame."""
    return b"%d " % x + (b"\n" if x % 3 == 2 else b"")


def numbers(frame: bytes | str) -> tuple[int, ...]:
    return tuple(map(int, frame.split()))


def threes(xs: list[int]) -> list[Any]:
    return [tuple(xs[i : i + 3]) for i in range(0, len(xs), 3)]


def in_frames_of_two_bytes(x: int) -> bytes:
    """Half a frame of an even number and one of an odd one: the header and the first byte, then the second."""
    return bytes([0, 2, x % 256]) if x % 2 == 0 else bytes([x % 256])


def json_pair(x: int) -> bytes:
    return b'[{"a":%d,' % x if x % 2 == 0 else b'"b":%d}]' % x


LAWS = {
    "delimiter": Case(
        lambda hook: over_ints(FramesByDelimiter(b"\n", 1_000, True), ended, numbers), threes, demand=None, calls=False
    ),
    "lines": Case(lambda hook: over_ints(Lines(), ended, numbers), threes, demand=None, calls=False),
    "decode": Case(lambda hook: over_ints(Decode(), lambda x: b"%d " % x, lambda text: int(text)), list, calls=False),
    "zstd": Case(
        lambda hook: over_ints(Zstd(flush=False), ended, len),
        lambda xs: [None] if xs else [],
        origins=lambda result: set(),
        demand=None,
        calls=False,
        verify=lambda received, sent, completed: None,
    ),
    "gzip": Case(
        lambda hook: over_ints(Gzip(), ended, len),
        origins=lambda result: set(),
        calls=False,
        verify=lambda received, sent, completed: None,
    ),
}


@pytest.mark.parametrize("name", LAWS)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_a_cutting_stage_keeps_the_laws(timeless, name, run):
    check_run(LAWS[name], timeless, run)


def test_a_mark_waits_for_the_frame_that_has_bytes_from_before_it(timeless):
    with Bench(timeless, FramesByDelimiter(b"\n", 100)) as bench:
        bench.request(10)
        bench.send(b"a\nb")
        bench.mark(1)
        assert bench.seen == [("element", b"a")]
        bench.send(b"c\nd\n")
        assert bench.seen == [("element", b"a"), ("element", b"bc"), ("mark", 1), ("element", b"d")]
        bench.mark(2)
        assert bench.marks == [1, 2]


def test_a_mark_waits_for_the_length_framed_element_too(timeless):
    with Bench(timeless, FramesByLength(1, 100)) as bench:
        bench.request(10)
        bench.send(b"\x02a")
        bench.mark(1)
        assert bench.seen == []
        bench.send(b"b\x01c")
        assert bench.seen == [("element", b"ab"), ("mark", 1), ("element", b"c")]


# ── by delimiter ──────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=60, deadline=None)
@given(
    frames=st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\r\n", b"")), max_size=12),
    sizes=CUTS,
)
def test_frames_by_delimiter_do_not_depend_on_where_elements_end(frames, sizes):
    frames = [frame for frame in frames if not frame.endswith(b"\r")]
    data = b"".join(frame + b"\r\n" for frame in frames)
    assert run(Source.from_iterable(pieces(data, sizes)).frames_by_delimiter(b"\r\n", 20)) == frames


def test_a_frame_without_its_delimiter_fails_the_stream_or_is_the_last():
    source = Source.from_iterable([b"one|tw", b"o"])
    with pytest.raises(FramingError, match=r"3 bytes after the last delimiter b'\|'"):
        run(source.frames_by_delimiter(b"|", 10))
    assert run(source.frames_by_delimiter(b"|", 10, allow_truncation=True)) == [b"one", b"two"]


@pytest.mark.parametrize("sizes", [[], [1] * 40, [4, 3], [30]])
def test_the_frames_before_one_that_is_too_long_are_emitted(sizes):
    seen: list[bytes] = []
    source = Source.from_iterable(pieces(b"a|bb|cccccc|d|", sizes)).frames_by_delimiter(b"|", 5)
    with pytest.raises(FramingError, match="max_length=5"):
        source.run_with(Sink.foreach(seen.append)).result(10)
    assert seen == [b"a", b"bb"]


def test_a_peer_that_never_sends_the_delimiter_fills_no_memory(timeless):
    with Bench(timeless, FramesByDelimiter(b"\n", 1_000)) as bench:
        bench.request(1)
        for _ in range(12):
            bench.send(b"x" * 100)
        assert isinstance(bench.end, FramingError)
        assert sum(map(len, bench.logic._parts)) <= 1_100


def test_a_frame_in_many_short_elements_is_not_copied_for_each_of_them():
    """Each element was once joined to all before it: 200,000 bytes, one at a time, took minutes."""
    data = [b"x"] * 200_000 + [b"\n"]
    assert [len(f) for f in run(Source.from_iterable(data).frames_by_delimiter(b"\n", 1_000_000))] == [200_000]


def test_text_in_place_of_bytes_is_named_with_the_way_out():
    with pytest.raises(
        TypeError, match=r"frames_by_delimiter expects bytes, got str 'x'; encode it: \.map\(str\.encode\)"
    ):
        run(Source.single("x").frames_by_delimiter(b"\n", 10))


# ── by length ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(
    frames=st.lists(st.binary(max_size=30), max_size=12),
    sizes=CUTS,
    field=st.integers(1, 8),
    order=st.sampled_from(["big", "little"]),
)
def test_what_with_length_field_writes_frames_by_length_reads(frames, sizes, field, order):
    framed = run(Source.from_iterable(frames).with_length_field(field, byteorder=order))
    data = pieces(b"".join(framed), sizes)
    assert run(Source.from_iterable(data).frames_by_length(field, 100, byteorder=order)) == frames
    kept = run(Source.from_iterable(data).frames_by_length(field, 100, byteorder=order, keep_header=True))
    assert kept == framed


def test_a_header_may_have_a_type_before_the_length_and_count_itself():
    frame = b"\x07" + (9).to_bytes(4, "big") + b"abcd"  # type, length of the whole frame, payload
    flow = Flow.identity().frames_by_length(
        4, 100, field_offset=1, frame_size=lambda header, value: value if header[0] == 7 else 0, keep_header=True
    )
    assert run(Source.from_iterable([frame[:3], frame[3:] + frame]).via(flow)) == [frame, frame]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x00\xff\xff", "says that the frame has 65539 bytes"),
        (b"\x00\x00\x00\x05abc", "ended with 7 bytes of a frame of 9"),
        (b"\x00\x00", "ended with 2 bytes of a header of 4"),
    ],
)
def test_a_frame_that_is_too_long_or_unfinished_fails_the_stream(data, message):
    with pytest.raises(FramingError, match=message):
        run(Source.single(data).frames_by_length(4, 1_000))


def test_a_length_beyond_the_limit_is_refused_before_its_bytes_are_kept(timeless):
    with Bench(timeless, FramesByLength(4, 1_000)) as bench:
        bench.request(1)
        bench.send((2**31).to_bytes(4, "big"))
        assert isinstance(bench.end, FramingError)
        assert bench.cancelled is not None


def test_an_element_that_no_frame_can_hold_is_refused():
    with pytest.raises(FramingError, match="has 256 bytes; a frame with a field of 1 bytes"):
        run(Source.single(bytes(256)).with_length_field(1))
    with pytest.raises(BuildError, match="field_bytes must be 1 to 8, got 9"):
        Flow.identity().frames_by_length(9, 100)


# ── JSON objects ──────────────────────────────────────────────────────────────────────────────────────────────────────

JSON = st.dictionaries(
    st.text(max_size=4),
    st.one_of(st.text(alphabet='a"\\{}[],é', max_size=6), st.lists(st.integers(), max_size=3), st.just({"x": {}})),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(objects=st.lists(JSON, max_size=6), sizes=CUTS, between=st.sampled_from([b"", b",", b"\n", b" , \r\n"]))
def test_json_objects_are_found_however_they_are_joined_and_cut(objects, sizes, between):
    texts = [json.dumps(each, ensure_ascii=False).encode() for each in objects]
    data = between.join(texts)
    if b"," in between:
        data = b" [" + data + b"]\n"
    assert run(Source.from_iterable(pieces(data, sizes)).frames_of_json(1_000)) == texts


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a":1} x', "expected an object, found b'x'"),
        (b'{"a":"' + b"x" * 50, "longer than max_length=20"),
        (b'[{"a":1}, {"b"', "ended within an object"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_what_is_no_json_object_fails_the_stream(data, message, size):
    source = Source.from_iterable(pieces(data, [size] * 60)).frames_of_json(20)
    with pytest.raises(FramingError, match=message):
        run(source)


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=40), sizes=CUTS, encoding=st.sampled_from(["utf-8", "utf-16", "utf-32-le"]))
def test_text_is_decoded_across_the_edges_of_elements(text, sizes, encoding):
    data = text.encode(encoding, errors="ignore")
    made = run(Source.from_iterable(pieces(data, sizes)).decode(encoding))
    assert "".join(made) == data.decode(encoding)


@settings(max_examples=40, deadline=None)
@given(
    lines=st.lists(st.text(alphabet="aé☃ ", max_size=6), max_size=8), sizes=CUTS, end=st.sampled_from(["\n", "\r\n"])
)
def test_lines_are_the_lines_of_the_text(lines, sizes, end):
    data = "".join(line + end for line in lines).encode()
    assert run(Source.from_iterable(pieces(data, sizes)).lines()) == lines
    assert run(Source.from_iterable(pieces(data + b"last", sizes)).lines()) == [*lines, "last"]


def test_a_line_that_is_no_text_is_named_by_its_number():
    with pytest.raises(UnicodeDecodeError) as raised:
        run(Source.single(b"one\ntwo\n\xff\n").lines())
    assert "in line 3" in raised.value.__notes__
    with pytest.raises(FramingError, match="line 2 is longer than max_length=3 bytes"):
        run(Source.single(b"one\nfour\n").lines(3))
    with pytest.raises(BuildError, match="in utf-16 a line does not end with the byte 0x0a"):
        Flow.identity().lines(encoding="utf-16")


def test_the_end_of_the_text_within_a_character_fails_the_stream():
    with pytest.raises(UnicodeDecodeError):
        run(Source.single("é".encode()[:1]).decode())
