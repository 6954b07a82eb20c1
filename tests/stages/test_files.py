"""Files as sources and sinks: blocks, lines, rotation, file objects; every failure names its file."""

from __future__ import annotations

import gc
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors import ActorSystem, BuildError, IOResult, Keep, Sink, Source, VirtualClock
from tests.actors.eventually import eventually
from tests.own_process import own_process


def run(source: Any) -> list[Any]:
    return source.run_with(Sink.to_list()).result(10)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_emitted_in_blocks_and_its_result_says_how_many_bytes(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"abcdefgh")
    read, blocks = Source.from_file(path, 3).to_mat(Sink.to_list(), Keep.both).run()
    assert blocks.result(10) == [b"abc", b"def", b"gh"]
    assert read.result(10) == IOResult(8, str(path))


def test_a_file_is_replayed_from_a_block_and_its_progress_is_heard(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"abcdefgh")
    done: list[int] = []
    source = Source.from_file(path, 3).with_replay(1, on_done=done.append)
    assert run(source) == [b"def", b"gh"]
    assert done[-1] == 3


def test_a_stream_that_ends_early_reads_no_more_and_closes_the_file(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(1_000_000))
    read, first = Source.from_file(path, 1_000).to_mat(Sink.head(), Keep.both).run()
    assert first.result(10) == bytes(1_000)
    assert read.result(10).count < 1_000_000


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    path = tmp_path / name
    read, blocks = Source.from_file(path).to_mat(Sink.to_list(), Keep.both).run()
    for future in (read, blocks):
        with pytest.raises(OSError, match=str(path)):
            future.result(10)


def test_a_file_object_is_read_and_closed_only_if_a_function_made_it():
    made: list[io.BytesIO] = []

    def make() -> io.BytesIO:
        made.append(io.BytesIO(b"abcdef"))
        return made[-1]

    source = Source.from_file_object(make, 4)
    assert run(source) == run(source) == [b"abcd", b"ef"]
    eventually(lambda: [file.closed for file in made] == [True, True])
    text = io.StringIO("aé☃")
    read, parts = Source.from_file_object(text, 2).to_mat(Sink.to_list(), Keep.both).run()
    assert parts.result(10) == ["aé", "☃"]
    assert read.result(10) == IOResult(3)
    assert not text.closed


def test_a_second_run_over_one_file_object_warns(caplog):
    source = Source.from_file_object(io.BytesIO(b"abc"))
    assert run(source) == [b"abc"]
    assert run(source) == []
    assert "an earlier run has read this BytesIO" in caplog.text


def test_what_is_no_file_object_is_refused_with_the_way_out():
    with pytest.raises(
        BuildError, match=r"from_file_object expects an object with read\(n\).*Source.from_file takes a path"
    ):
        Source.from_file_object("data")
    with pytest.raises(
        BuildError, match=r"to_file_object expects an object with write\(data\).*Sink.to_file takes a path"
    ):
        Sink.to_file_object("data")
    with pytest.raises(BuildError, match="from_file expects a path, got int 3"):
        Source.from_file(3)


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bytes_are_written_in_place_of_a_file_or_behind_it(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    assert Source.from_iterable([b"one", b"two"]).run_with(Sink.to_file(path)).result(10) == IOResult(6, str(path))
    assert path.read_bytes() == b"onetwo"
    Source.single(b"!").run_with(Sink.to_file(path, append=True, sync=True)).result(10)
    assert path.read_bytes() == b"onetwo!"


def test_lines_are_what_from_lines_reads(tmp_path):
    path = tmp_path / "out"
    Source.range(0, 5_000).map(str).run_with(Sink.to_lines(path)).result(10)
    assert run(Source.from_lines(path)) == [str(n) for n in range(5_000)]
    with pytest.raises(TypeError, match=r"to_lines expects strings, got int 7; convert it: \.map\(str\)"):
        Source.single(7).run_with(Sink.to_lines(path)).result(10)
    with pytest.raises(TypeError, match=r"to_file expects bytes, got str 'x'; encode it"):
        Source.single("x").run_with(Sink.to_file(path)).result(10)


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "no" / "out")):
        Source.single(b"x").run_with(Sink.to_file(tmp_path / "no" / "out")).result(10)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_fails_the_stream_and_names_the_file():
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        Source.single(b"x").run_with(Sink.to_file("/dev/full")).result(10)


@pytest.mark.parametrize("append", [False, True])
def test_a_mark_is_done_when_the_bytes_are_in_the_file(tmp_path, append):
    path = tmp_path / "out"
    seen: list[tuple[int, int]] = []

    def size() -> int:
        return (path if path.exists() else path.with_name("out.partial")).stat().st_size

    (
        Source.from_iterable([b"abc"] * 1_000)
        .with_replay(marks_at=[10, 500], on_done=lambda at: seen.append((at, size())))
        .run_with(Sink.to_file(path, append=append))
        .result(10)
    )
    assert seen[-1] == (1_000, 3_000)
    assert all(size >= 3 * at for at, size in seen)


def test_a_file_object_is_written_and_closed_only_if_a_function_made_it():
    class Kept(io.BytesIO):
        at_close = b""

        def close(self) -> None:
            self.at_close = self.getvalue()
            super().close()

    made = Kept()
    assert Source.from_iterable([b"ab", b"c"]).run_with(Sink.to_file_object(lambda: made)).result(10) == IOResult(3)
    assert made.closed
    assert made.at_close == b"abc"
    text = io.StringIO()
    Source.from_iterable("xyz").run_with(Sink.to_file_object(text)).result(10)
    assert text.getvalue() == "xyz"


# ── rotating ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("max_chunk", [None, 1, 2])
def test_files_rotate_by_size_wherever_chunks_end(tmp_path, max_chunk):
    closed: list[IOResult] = []
    sink = Sink.to_rotating_files(lambda n: tmp_path / f"{n}", max_bytes=5, on_closed=closed.append)
    source = Source.from_iterable([b"aa", b"bb", b"cc", b"longer", b"d", b"e"])
    if max_chunk:
        source = source.max_chunk(max_chunk)
    results = source.run_with(sink).result(10)
    assert contents(tmp_path) == [b"aabb", b"cc", b"longer", b"de"]
    assert [r.count for r in results] == [4, 2, 6, 2]
    assert closed == results


def test_files_rotate_by_a_function_of_the_element(tmp_path):
    sink = Sink.to_rotating_files(lambda n: tmp_path / f"{n}", when=lambda element: element.startswith(b"#"))
    Source.from_iterable([b"#1", b"a", b"#2", b"b"]).run_with(sink).result(10)
    assert contents(tmp_path) == [b"#1a", b"#2b"]


def test_files_rotate_by_time_also_when_nothing_comes(tmp_path):
    clock = VirtualClock()
    closed: list[IOResult] = []
    with ActorSystem("rotating", clock=clock) as system:
        sink = Sink.to_rotating_files(lambda n: tmp_path / f"{n}", every="1m", on_closed=closed.append)
        queue, results = Source.queue(10).to_mat(sink, Keep.both).run(system)
        clock.settle()
        queue.offer(b"a")
        clock.settle()
        clock.advance("59s")
        queue.offer(b"b")
        clock.settle()
        clock.advance("1s")
        assert [r.count for r in closed] == [2]
        clock.advance("5m")  # no file is made without an element
        queue.offer(b"c")
        queue.complete()
        clock.settle()
        assert [r.count for r in results.result(10)] == [2, 1]
    assert contents(tmp_path) == [b"ab", b"c"]


def test_a_file_that_exists_is_not_overwritten_by_rotation(tmp_path):
    (tmp_path / "0").write_bytes(b"old")
    with pytest.raises(FileExistsError, match=str(tmp_path / "0")):
        Source.single(b"x").run_with(Sink.to_rotating_files(lambda n: tmp_path / f"{n}", max_bytes=5)).result(10)
    Source.single(b"x").run_with(Sink.to_rotating_files(lambda n: tmp_path / f"{n}", max_bytes=5, append=True)).result(
        10
    )
    assert contents(tmp_path) == [b"oldx"]
    with pytest.raises(BuildError, match="needs a reason to begin a new file"):
        Sink.to_rotating_files(lambda n: tmp_path / f"{n}")


# ── file objects ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thread_reads_a_stream_as_a_file():
    reader = Source.range(0, 10_000).map(lambda n: b"%d\n" % n).run_with(Sink.to_reader())
    with io.TextIOWrapper(reader) as text:
        assert [int(line) for line in text] == list(range(10_000))


def test_a_reader_hears_of_the_failure_and_its_close_cancels_the_stream():
    reader = Source.from_iterable([b"a", b"0"]).map(lambda b: b"%d" % (1 // (b != b"0"))).run_with(Sink.to_reader())
    with pytest.raises(ZeroDivisionError):
        reader.read()
    ended = threading.Event()
    endless = Source.repeat(b"x").watch_termination(lambda _, future: future.add_done_callback(lambda _: ended.set()))
    reader = endless.run_with(Sink.to_reader())
    assert reader.read(5) == b"xxxxx"
    reader.close()
    assert ended.wait(10)


def test_a_thread_writes_a_stream_as_a_file():
    writer, lines = Source.from_writer(2).lines().to_mat(Sink.to_list(), Keep.both).run()
    with io.TextIOWrapper(writer, write_through=True) as text:
        for n in range(1_000):
            print(n, file=text)
    assert lines.result(10) == [str(n) for n in range(1_000)]


def test_a_writer_hears_that_its_stream_has_ended():
    writer, first = Source.from_writer().to_mat(Sink.head(), Keep.both).run()
    writer.write(b"one")
    assert first.result(10) == b"one"
    with pytest.raises(BrokenPipeError, match="the stream that this file feeds has ended"):
        for _ in range(100):
            writer.write(b"more")


def test_a_writer_waits_for_the_stream_to_have_room():
    writer, queue = Source.from_writer(1).to_mat(Sink.to_queue(1), Keep.both).run()
    written = []

    def write() -> None:
        for n in range(200):
            writer.write(b"%d" % n)
            written.append(n)
        writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while (element := queue.pull(None).result(10)) is not None:
        assert len(written) <= len(seen) + 8
        seen.append(int(element))
    thread.join(10)
    assert seen == list(range(200))


# ── what they leave behind ────────────────────────────────────────────────────────────────────────────────────────────


@own_process
def test_two_hundred_runs_leave_no_descriptor_and_no_thread(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"a\nb\n" * 100)

    def once(n: int) -> None:
        out = tmp_path / f"out{n % 3}"
        Source.from_file(path, 10).lines().run_with(Sink.to_lines(out)).result(10)
        Source.from_file(path, 10).run_with(Sink.head()).result(10)
        Source.from_file(path, 10).run_with(Sink.to_rotating_files(lambda i: out, max_bytes=1_000, append=True)).result(
            10
        )
        Source.from_file(path, 10).map(lambda _: 1 // 0).run_with(Sink.to_file(out)).exception(10)
        Source.tail_file(path).run_with(Sink.head()).result(10)
        Source.from_file(path, 10).run_with(Sink.to_reader()).close()
        writer, end = Source.from_writer().to_mat(Sink.ignore(), Keep.both).run()
        writer.close()
        end.result(10)

    for n in range(20):
        once(n)
    with ActorSystem("settled"):
        pass
    gc.collect()
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for n in range(200):
        once(n)
    gc.collect()
    eventually(
        lambda: len(os.listdir("/proc/self/fd")) <= before
    )  # the last file may be closed a moment after its result
    assert threading.active_count() <= threads + 20, "the pool grows with the load, not with the number of runs"


def test_a_byte_order_mark_is_written_once_whatever_the_chunks(tmp_path):
    """Each chunk had one of its own, so where chunks were cut changed the file."""
    path = tmp_path / "lines"
    for n in range(2):
        sink = Sink.to_lines(path, "utf-16", append=True)
        Source.from_iterable([f"{n}a", f"{n}b"]).max_chunk(1).run_with(sink).result(10)
    assert path.read_bytes().decode("utf-16") == "0a\n0b\n1a\n1b\n"
