"""A row of a windowed count and a row of a join pass the same files in the same order, and docs/architecture.md names them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from streamactors import ActorSystem, Sink, Source, Topics
from streamactors.windows import JoinWindows, Record, TimeWindows

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = str(ROOT / "streamactors") + "/"
SHARED = ("windows/stage/", "windows/topology/window_task", "windows/topology/plan", "windows/operators/task_ids")
"""The rooms that do the same for every operator."""
BEGIN = ("windows/stage/stage_state.py", "_rows")
"""The first call that a row causes in the stage."""
OF_THE_COUNT = (
    "windows/operators/aggregate.py",
    "windows/operators/windowed/time_updates.py",
    "windows/state/stores.py",
)
OF_THE_JOIN = ("windows/joins/stream_stream.py", "windows/state/row_store.py")


def records() -> Source[Any, Any]:
    return Source.from_iterable([Record("a", n, 1_700_000_000_000 + n) for n in range(3)])


def a_count() -> Source[Any, Any]:
    windows = TimeWindows.of_size("1m").with_no_grace()
    counted: Source[Any, Any] = records().group_by_key().windowed_by(windows).count().to_stream()
    return counted


def a_join() -> Source[Any, Any]:
    topics = Topics.in_memory({"left": records(), "right": records()})
    left, right = topics.stream("left"), topics.stream("right")
    windows = JoinWindows.of("1m").with_grace("1m")
    return topics.source(left.join(right, lambda a, b: (a, b), windows))


@contextmanager
def watched(files: dict[str, None]) -> Iterator[None]:
    """Collect the product's files by their first call since a row came, on threads that begin meanwhile."""

    def see(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            file = code.co_filename.removeprefix(PACKAGE)
            if files or (file, code.co_name) == BEGIN:
                files.setdefault(file)

    before = threading.getprofile()
    threading.setprofile(see)
    try:
        yield
    finally:
        threading.setprofile(before)


def path_of(build: Callable[[], Source[Any, Any]]) -> list[str]:
    """Return the files that the rows of a stream pass through."""
    files: dict[str, None] = {}
    with watched(files), ActorSystem("path") as system:
        assert len(build().run_with(Sink.to_list(), system).result(timeout=60)) >= 3
    return list(files)


def test_a_row_of_a_count_and_a_row_of_a_join_pass_the_same_files_in_the_same_order() -> None:
    count, join = path_of(a_count), path_of(a_join)
    shared = [file for file in count if file.startswith(SHARED)]
    assert len(shared) > 8
    assert shared == [file for file in join if file.startswith(SHARED)]
    assert set(OF_THE_COUNT) <= set(count)
    assert set(OF_THE_JOIN) <= set(join)


def test_the_architecture_names_the_files_that_both_rows_pass() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition("## One row of a windowed count")[2].partition("\n## ")[0]
    passed = {file for file in path_of(a_count) if file.startswith(SHARED)}
    not_of_a_row = {"windows/stage/store_reads.py"}  # closed at the end of the stage
    unnamed = [file for file in (passed - not_of_a_row) | {*OF_THE_COUNT, *OF_THE_JOIN} if f"`{file}`" not in section]
    assert unnamed == []
