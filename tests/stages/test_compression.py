"""Compression both ways: what one tool writes the other reads, and a bomb fills no memory."""

from __future__ import annotations

import gzip
import resource
import zlib
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import BuildError, CompressionError, Flow, Sink, Source
from streamactors.stages.compression.zlib_streams import Gunzip, Gzip, Inflate
from streamactors.stages.compression.zstd_frames import Unzstd, Zstd
from tests.own_process import own_process
from tests.stages.harness import Bench
from tests.stages.test_framing import CUTS, pieces, run

FORMATS: dict[str, tuple[Any, Any]] = {
    "gzip": (Flow.identity().gzip(), Flow.identity().gunzip(max_element=7)),
    "gzip_whole": (Flow.identity().gzip(9, flush=False), Flow.identity().gunzip()),
    "deflate": (Flow.identity().deflate(), Flow.identity().inflate(max_element=7)),
    "raw": (Flow.identity().deflate(raw=True, flush=False), Flow.identity().inflate(raw=True)),
    "zstd": (Flow.identity().zstd(), Flow.identity().unzstd(max_element=7)),
    "zstd_whole": (Flow.identity().zstd(flush=False, frame_bytes=50), Flow.identity().unzstd()),
}
DATA = st.lists(st.one_of(st.binary(max_size=40), st.integers(0, 300).map(bytes)), max_size=8)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20, deadline=None)
@given(elements=DATA, sizes=CUTS)
def test_what_is_compressed_is_decompressed_however_it_is_cut(name, elements, sizes):
    to, back = FORMATS[name]
    compressed = b"".join(run(Source.from_iterable(elements).via(to)))
    assert b"".join(run(Source.from_iterable(pieces(compressed, sizes)).via(back))) == b"".join(elements)


def test_other_tools_read_what_is_written_here():
    data = [b"abc" * 100, b"", bytes(range(256))]
    source = Source.from_iterable(data)
    whole = b"".join(data)
    assert gzip.decompress(b"".join(run(source.gzip()))) == whole
    assert gzip.decompress(b"".join(run(source.gzip(flush=False)))) == whole
    assert zlib.decompress(b"".join(run(source.deflate()))) == whole
    assert zlib.decompress(b"".join(run(source.deflate(raw=True))), -15) == whole
    assert bytes(cramjam.zstd.decompress(b"".join(run(source.zstd())))) == whole


def test_an_empty_stream_is_an_empty_file_of_the_format():
    assert gzip.decompress(b"".join(run(Source.empty().gzip()))) == b""
    assert run(Source.from_iterable([gzip.compress(b"")]).gunzip()) == []
    assert run(Source.empty().gunzip()) == []
    assert run(Source.empty().unzstd()) == []


def test_members_and_frames_one_behind_the_other_are_one_stream():
    two = gzip.compress(b"one") + b"\0\0\0" + gzip.compress(b"two")
    assert b"".join(run(Source.from_iterable(pieces(two, [1] * 30)).gunzip())) == b"onetwo"
    frames = (
        bytes(cramjam.zstd.compress(b"one")) + b"\x50\x2a\x4d\x18\x03\0\0\0xyz" + bytes(cramjam.zstd.compress(b"two"))
    )
    assert b"".join(run(Source.from_iterable(pieces(frames, [1] * 30)).unzstd())) == b"onetwo"


def test_with_flush_each_element_can_be_decompressed_when_it_is_emitted(timeless):
    for stage in (Gzip(), Zstd()):
        with (
            Bench(timeless, stage) as bench,
            Bench(timeless, Gunzip() if isinstance(stage, Gzip) else Unzstd()) as back,
        ):
            bench.request(10)
            back.request(10)
            bench.send(b"first")
            back.send(*bench.received)
            assert back.received == [b"first"]


@pytest.mark.parametrize(
    ("flow", "data", "message"),
    [
        (Flow.identity().gunzip(), b"no gzip at all", "gunzip: the compressed bytes are damaged"),
        (Flow.identity().gunzip(), gzip.compress(b"abc" * 50)[:-3], "gunzip: the stream ended within"),
        (Flow.identity().inflate(), zlib.compress(b"abc") + b"x", "bytes follow the end of the data"),
        (Flow.identity().inflate(), zlib.compress(b"abc")[:-1] + b"x", "inflate: the compressed bytes are damaged"),
        (Flow.identity().unzstd(), b"no zstd at all", "not with 28 b5 2f fd"),
        (
            Flow.identity().unzstd(),
            bytes(cramjam.zstd.compress(b"abc" * 50))[:-1],
            "unzstd: the stream ended within a frame",
        ),
        (
            Flow.identity().unzstd(max_frame=99),
            bytes(cramjam.zstd.compress(bytes(100))),
            "more than max_frame=99 bytes",
        ),
    ],
    ids=[
        str(number) for number in range(7)
    ],  # the bytes of a gzip header hold the time: each process would have its own names
)
def test_damaged_bytes_fail_the_stream_and_say_how(flow, data, message):
    with pytest.raises(CompressionError, match=message):
        run(Source.from_iterable(pieces(data, [5] * 3)).via(flow))


@settings(max_examples=60, deadline=None)
@given(data=st.binary(min_size=1, max_size=60), at=st.integers(0, 30), value=st.integers(0, 255))
def test_no_damage_hangs_or_raises_anything_else(data, at, value):
    for flow, made in (
        (Flow.identity().gunzip(), gzip.compress(data)),
        (Flow.identity().unzstd(max_frame=1_000), bytes(cramjam.zstd.compress(data))),
    ):
        damaged = bytearray(made)
        damaged[at % len(made)] = value
        try:
            run(Source.single(bytes(damaged)).via(flow))
        except CompressionError:
            pass


def test_blocks_come_as_they_are_asked_for(timeless):
    bomb = gzip.compress(bytes(10_000_000), 9)
    with Bench(timeless, Gunzip(max_element=1_000)) as bench:
        bench.request(3)
        bench.send(bomb)
        assert [len(x) for x in bench.received] == [1_000] * 3
        bench.request(2)
        assert len(bench.received) == 5


def test_a_mark_passes_when_what_stems_from_before_it_has_left(timeless):
    member = zlib.compress(bytes(5_000))
    with Bench(timeless, Inflate(max_element=2_000)) as bench:
        bench.request(2)
        bench.send(member)
        bench.mark()
        assert (len(bench.received), bench.marks) == (2, [])
        bench.request(1)
        assert (len(bench.received), bench.marks) == (3, [1])


@own_process
@pytest.mark.parametrize("name", ["gunzip", "inflate", "unzstd"])
def test_a_decompression_bomb_fills_no_memory(name):
    """A few hundred kB of each stand for 256 MB; the process may grow by a fraction of it."""
    block = bytes(1 << 20)
    if name == "gunzip":
        elements, flow = [gzip.compress(block * 256, 9)], Flow.identity().gunzip()
    elif name == "inflate":
        elements, flow = [zlib.compress(block * 256, 9)], Flow.identity().inflate()
    else:
        elements, flow = [bytes(cramjam.zstd.compress(block * 32))] * 8, Flow.identity().unzstd()
    run(Source.single(elements[0][:0]).via(flow))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = Source.from_iterable(elements).via(flow).run_with(Sink.fold(0, lambda n, b: n + len(b))).result(60)
    assert total == 256 << 20
    if name == "unzstd":  # a frame is one piece
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 120_000
    else:
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def test_arguments_that_cannot_work_are_refused():
    for make, message in (
        (lambda: Flow.identity().gzip(10), r"level must be 0 \(fast\) to 9"),
        (lambda: Flow.identity().zstd(0), r"level must be 1 \(fast\) to 22"),
        (lambda: Flow.identity().gunzip(max_element=0), "max_element must be at least 1"),
    ):
        with pytest.raises(BuildError, match=message):
            make()
