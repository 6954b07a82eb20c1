"""Ten thousand materializations of each operator leave no run, thread, descriptor or memory behind: its example, run again and again.

Many runs go on at a time under one virtual clock, and are cut off where they do not end by themselves."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from docs.catalogue import Example, examples
from docs.pictures import Seen, evaluated, in_system_of, inputs, program
from streamactors import KillSwitches, Sink, Source
from streamactors.engine.island.run import runs_of
from streamactors.testing import Marbles
from tests.own_process import own_process

PAGES = examples()
EXAMPLES = {f"{page}.{name}": example for page, of_page in PAGES.items() for name, example in of_page.items()}
ELSEWHERE = {
    "sources-files.from_stdin": "the example starts another Python for its standard input",
    "sinks-files.to_stdout": "the example starts another Python for its standard output",
    "pub-sub.PubSub.sink": "the example has an actor system of its own, and a clock; PubSub.source has a sink as well",
}
"""Examples that are not run here, and why."""
COUNTED = ("objects", "blocks", "bytes", "threads", "descriptors")
MOST_LEFT = {"objects": 400, "blocks": 1_500, "bytes": 3_000_000}
"""A thread of the pool needs some of each."""
AT_A_TIME = 250
MOST_FRAMES = 100
MORE_THREADS = 3
"""The pool may rest on a few threads more than before, each with some objects of its own."""


needs_glibc = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc's mallinfo2 and /proc"
)


@pytest.fixture(autouse=True)
def silence():
    """Some examples fail on purpose; pytest keeps each line, which would be counted."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def repeated(example: Example, n: int, marbles: Marbles, path: Path) -> None:
    """Run an example n times, all at a time, until every run has ended."""
    system, switch, every = marbles.system, KillSwitches.shared(), []
    for number in range(n):
        every.append(seen := Seen(marbles))
        names = inputs(example.inputs, marbles) | {"seen": seen, "path": path.with_name(f"{number}")}
        value = evaluated(example.code, names, marbles)
        if isinstance(value, Source):
            value.via(switch.flow()).run_with(Sink.ignore(), system)
    for _ in range(MOST_FRAMES):
        marbles.clock.advance(marbles.frame_ms / 1_000)
        if not runs_of(system):
            break
    switch.shutdown()
    for seen in every:
        seen.end()
    marbles.clock.settle()
    marbles.clock.advance("10m")  # what waits for its time-out
    assert not runs_of(system), "runs are left behind"
    for file in path.parent.iterdir():
        file.unlink()


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


def allocated_bytes() -> int:
    """Return the bytes that are allocated beside Python's own small blocks. The resident size would count what is free as well."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    now = mallinfo()
    return now.uordblks + now.hblkhd


def rested(threads: int) -> None:
    """Wait until the pool has ended the threads beyond this number, which it does when they have been idle for five seconds."""
    end = time.monotonic() + 60
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.05)


def counted() -> tuple[int, ...]:
    gc.collect()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    return len(gc.get_objects()), sys.getallocatedblocks(), allocated_bytes(), threads, descriptors


def left_behind(example: Example, times: int, folder: Path) -> dict[str, int]:
    """Return what `times` runs of an example have left, beside those that came before to warm up.

    A table of the process that grew meanwhile is no leak: if much is left, as many runs again say whether each leaves something."""

    def whole(n: int) -> None:
        if example.is_program:
            for _ in range(n):
                program(example.code)
            return
        with in_system_of(marbles):
            for begun in range(0, n, AT_A_TIME):
                repeated(example, min(AT_A_TIME, n - begun), marbles, folder / "0")

    with Marbles() as marbles:
        whole(min(times, 2 * AT_A_TIME))
        left: dict[str, int] = {}
        before = counted()
        for _ in range(2):
            whole(times)
            rested(before[COUNTED.index("threads")] + MORE_THREADS)
            after = counted()
            grown = {name: b - a for name, a, b in zip(COUNTED, before, after, strict=True)}
            left = {name: min(n, left.get(name, n)) for name, n in grown.items()}
            if all(left[name] < most for name, most in MOST_LEFT.items()):
                break
            before = after
    return left


def times_of(example: Example, most: int) -> int:
    """Runs with processes, sockets or files are 200 at the most."""
    outside = example.is_program or "path" in example.code or "memory://" in example.code
    return min(200, most) if outside else most


def check(name: str, most: int, folder: Path) -> None:
    times = times_of(EXAMPLES[name], most)
    left = left_behind(EXAMPLES[name], times, folder)
    for what, limit in MOST_LEFT.items():
        assert left[what] < limit, left
    assert left["threads"] <= MORE_THREADS, "threads beyond those of the pool at rest"
    assert left["descriptors"] <= 2, left


def test_every_operator_is_here_or_has_a_reason():
    assert ELSEWHERE.keys() <= EXAMPLES.keys()
    assert len(EXAMPLES) - len(ELSEWHERE) > 280


@pytest.mark.slow
@needs_glibc
@pytest.mark.parametrize("name", ["operators-substreams.group_by", "hubs.MergeHub.source"])
def test_hundreds_of_runs_of_an_example_leave_nothing(name, tmp_path):
    check(name, 500, tmp_path)


@own_process
@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_glibc
@pytest.mark.parametrize("page", PAGES)
def test_ten_thousand_materializations_of_each_operator_leave_nothing(page, tmp_path):
    most = int(os.environ.get("MATERIALIZATIONS", "10000"))
    for name in PAGES[page]:
        if f"{page}.{name}" not in ELSEWHERE:
            try:
                check(f"{page}.{name}", most, tmp_path)
            except AssertionError as error:
                error.add_note(name)
                raise
