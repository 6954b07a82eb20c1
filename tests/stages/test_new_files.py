"""Sinks that write a new file put it in the place of the old one when it is complete, never before."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors import AbruptTermination, ActorSystem, Flow, Keep, KillSwitches, Sink, Source
from tests.actors.eventually import eventually

SINKS: Any = pytest.mark.parametrize(
    ("sink", "elements", "text"),
    [
        (Sink.to_file, [b"a\n", b"b\n"], "a\nb\n"),
        (Sink.to_lines, ["a", "b"], "a\nb\n"),
        (Sink.to_csv, [{"n": "a"}, {"n": "b"}], "n\na\nb\n"),
        (Sink.to_json_lines, [{"n": "a"}, {"n": "b"}], '{"n": "a"}\n{"n": "b"}\n'),
    ],
    ids=["to_file", "to_lines", "to_csv", "to_json_lines"],
)


def fails_at(source: Source[Any, Any], n: int) -> Source[Any, Any]:
    """Return the source, with a failure in place of element n."""

    def fail(pair: tuple[Any, int]) -> Any:
        if pair[1] == n:
            raise RuntimeError("no more")
        return pair[0]

    return source.zip_with_index().map(fail)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    path.write_text("old\n")
    return path


# The sink opened the file with "wb" when the stream began, so the source found it empty: `from_csv(p).run_with(to_csv(p))` lost every row.
def test_a_file_is_read_and_written_by_one_graph(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    for source, sink, text in [
        (Source.from_csv(path), Sink.to_csv(path), "a,b\n1,2\n3,4\n"),
        (Source.from_json_lines(path), Sink.to_json_lines(path), '{"n": 1}\n{"n": 2}\n'),
        (Source.from_lines(path), Sink.to_lines(path), "x\ny\n" * 50_000),
        (Source.from_file(path), Sink.to_file(path), "x\ny\n" * 50_000),
    ]:
        path.write_text(text)
        source.run_with(sink).result(10)
        assert path.read_text() == text
    assert os.listdir(tmp_path) == ["rows"]


@SINKS
def test_a_source_that_fails_at_its_start_leaves_the_old_file_and_nothing_else(
    path: Path, sink: Any, elements: list[Any], text: str
) -> None:
    with pytest.raises(FileNotFoundError):
        Source.from_csv(path.parent / "missing").run_with(sink(path)).result(10)
    assert (path.read_text(), os.listdir(path.parent)) == ("old\n", ["rows"])


def test_a_header_alone_is_no_reason_to_keep_a_partial_file(path: Path) -> None:
    with pytest.raises(RuntimeError):
        fails_at(Source.single({"n": 1}), 0).run_with(Sink.to_csv(path, ["n"])).result(10)
    assert (path.read_text(), os.listdir(path.parent)) == ("old\n", ["rows"])


@SINKS
def test_a_stream_that_fails_leaves_the_old_file_and_names_the_partial_one(
    path: Path, sink: Any, elements: list[Any], text: str
) -> None:
    for name in ("rows.partial", "rows.partial-2"):  # the second run keeps what the first one left
        with pytest.raises(RuntimeError) as failed:
            fails_at(Source.from_iterable([*elements, elements[0]]), 2).run_with(sink(path)).result(10)
        partial = path.with_name(name)
        assert path.read_text() == "old\n"
        assert partial.read_text() == text
        assert any(
            note == f"{path} is unchanged; what this run has written is in {partial}" for note in failed.value.__notes__
        )


@SINKS
def test_the_new_file_is_seen_when_the_stream_has_completed(
    path: Path, sink: Any, elements: list[Any], text: str
) -> None:
    source = Source.from_iterable(elements).concat(
        Source.lazy_source(lambda: Source.empty() if path.read_text() == "old\n" else Source.single(None))
    )
    source.run_with(sink(path, sync=True)).result(10)
    assert (path.read_text(), os.listdir(path.parent)) == (text, ["rows"])


def test_permissions_and_links_stay(path: Path) -> None:
    path.chmod(0o640)
    link = path.with_name("link")
    link.symlink_to(path)
    Source.single("new").run_with(Sink.to_lines(link)).result(10)
    assert link.is_symlink()
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_that_open_gives(tmp_path: Path) -> None:
    opened, written = tmp_path / "opened", tmp_path / "written"
    opened.write_text("")
    Source.single("new").run_with(Sink.to_lines(written)).result(10)
    assert written.stat().st_mode == opened.stat().st_mode


@SINKS
def test_append_writes_into_the_file_itself(path: Path, sink: Any, elements: list[Any], text: str) -> None:
    before = path.stat().st_ino
    seen: list[str] = []
    with pytest.raises(RuntimeError):
        (
            fails_at(Source.from_iterable([*elements, elements[0]]), 2)
            .with_attributes(max_chunk=1)
            .wire_tap(lambda _: seen.append(path.read_text()))
            .run_with(sink(path, append=True))
            .result(10)
        )
    assert path.stat().st_ino == before
    assert path.read_text().startswith("old\n")
    assert os.listdir(path.parent) == ["rows"]


def test_a_kill_switch_completes_the_file(path: Path) -> None:
    switch, done = (
        Source.never().via_mat(KillSwitches.single(), Keep.right).to_mat(Sink.to_lines(path), Keep.both).run()
    )
    switch.shutdown()
    done.result(10)
    assert (path.read_text(), os.listdir(path.parent)) == ("", ["rows"])


def test_a_stream_that_is_stopped_says_where_its_rows_are(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ActorSystem("stopped") as system:
        written = threading.Event()
        rows = Source.from_iterable(["new", "the sink has asked again"]).max_chunk(1)
        source = rows.filter(lambda row: row == "new" or written.set()).concat(Source.never())
        done = source.run_with(Sink.to_lines(path), system)
        assert written.wait(10)
    with pytest.raises(AbruptTermination):
        done.result(10)
    eventually(lambda: f"to_lines: the stream was stopped before its end: {path} is unchanged" in caplog.text)
    assert (path.read_text(), path.with_name("rows.partial").read_text()) == ("old\n", "new\n")


def test_a_local_object_appears_when_it_is_complete(path: Path) -> None:
    with path.open() as reader:
        sink = Sink.to_objects(lambda batch: f"file://{path}", lambda batch: b"new")
        assert Source.single(1).run_with(sink).result(10) == 1
        assert reader.read() == "old\n"
    assert (path.read_text(), os.listdir(path.parent)) == ("new", ["rows"])


def test_a_device_is_written_where_it_is() -> None:
    Source.single(b"x").run_with(Sink.to_file("/dev/null")).result(10)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_allows_no_new_file_is_an_error_with_the_way_out(path: Path) -> None:
    path.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError) as failed:
            Source.single("x").run_with(Sink.to_lines(path)).result(10)
        assert any("append=True writes into the file itself" in note for note in failed.value.__notes__)
    finally:
        path.parent.chmod(0o700)
    path.chmod(0o400)
    with pytest.raises(PermissionError, match=str(path)):
        Source.single("x").run_with(Sink.to_lines(path)).result(10)
    assert path.read_text() == "old\n"


def test_a_side_sink_that_fails_leaves_its_old_file(path: Path) -> None:
    with pytest.raises(TypeError):
        Source.from_iterable(["a", 1]).also_to(Flow.map(lambda x: x).to(Sink.to_lines(path))).run_with(
            Sink.ignore()
        ).result(10)
    assert path.read_text() == "old\n"
