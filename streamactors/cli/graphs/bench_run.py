"""A run that is measured: a counter after each source, and what the process uses meanwhile.

Owner: `streamactors bench`. A counter adds a call for each chunk, and looks at the bytes of one chunk in 16."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Joined, Module, StageModule, Wired, keep_left
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.kafka.controls.supervised import SupervisedRun
from streamactors.stages.bases.passing import PassingLogic

LOOK_AT_EVERY: Final = 16
LOOKED_ELEMENTS: Final = 64
"""Elements of a chunk whose bytes are added up."""
RSS_FIELD: Final = 1


@dataclass(slots=True)
class Count:
    """What has passed one source's counter: elements, and the bytes of those that were looked at."""

    elements: int = 0
    looked: int = 0
    sized: int = 0
    size_bytes: int = 0

    def bytes_each(self) -> float | None:
        """The mean of an element's bytes; None if elements have no bytes, or none were seen."""
        return self.size_bytes / self.sized if self.sized and self.sized == self.looked else None


def size_of(element: Any) -> int | None:
    """Return the bytes of an element: of a byte or character string, or of a record's key and value. None for what has no size."""
    if isinstance(element, (bytes, bytearray, memoryview)):
        return len(element)
    if isinstance(element, str):
        return len(element.encode(errors="replace"))
    parts = [getattr(element, name, None) for name in ("key", "value")]
    sizes = [len(part) for part in parts if isinstance(part, (bytes, str))]
    if sizes or (hasattr(element, "value") and element.value is None):
        return sum(sizes)
    return None


class Counted(Stage[In, In]):
    """Count elements for `streamactors bench`, and pass them on."""

    handling = EXACT

    def __init__(self, count: Count) -> None:
        self.count = count

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        """Return the logic, which writes into the stage's count."""
        return _CountedLogic(self.count), None


class _CountedLogic(PassingLogic):
    def __init__(self, count: Count) -> None:
        self._count = count
        self._chunks = 0

    def on_push(self, in_: Connection) -> None:
        out = self.out
        chunk = in_.grab(out.asked)
        if chunk:
            self._count.elements += len(chunk)
            if self._chunks % LOOK_AT_EVERY == 0:
                self._look(chunk)
            self._chunks += 1
            out.push(chunk)
        if out.asked:
            in_.want(out.asked)

    def _look(self, chunk: list[Any]) -> None:
        count = self._count
        sizes = [size_of(element) for element in chunk[:LOOKED_ELEMENTS]]
        count.looked += len(sizes)
        for size in sizes:
            if size is not None:
                count.sized += 1
                count.size_bytes += size


class MeasuredRun(SupervisedRun):
    """A supervised run with a counter after each source."""

    def __init__(self, *arguments: Any) -> None:
        self.counts: list[Count] = []
        super().__init__(*arguments)

    def _held_leaf(self, module: Module) -> Module:
        held = super()._held_leaf(module)
        if isinstance(module, Wired) or module.shape.inlets or len(module.shape.outlets) != 1:
            return held  # sources inside of a Wired are counted themselves
        count = Count()
        self.counts.append(count)
        return Joined(held, StageModule(Counted(count)), keep_left)

    def elements(self) -> int:
        """Elements of all sources."""
        return sum(count.elements for count in self.counts)

    def bytes_each(self) -> float | None:
        """The mean of an element's bytes, over all sources; None if that of one is not known."""
        used = [count for count in self.counts if count.elements]
        means = [count.bytes_each() for count in used]
        if not used or None in means:
            return None
        every = sum(count.elements for count in used)
        return sum(mean * count.elements for mean, count in zip(means, used, strict=True) if mean is not None) / every


@dataclass(frozen=True, slots=True)
class Sample:
    """The run at one moment. `cpu_s`: of this process and of its children. `queued_s`: how long its threads were ready to run without a core."""

    at_s: float
    elements: int
    cpu_s: float
    memory_bytes: int | None
    queued_s: float = 0.0


def sample(run: MeasuredRun) -> Sample:
    """Return what the run has done and used until now."""
    return Sample(time.monotonic(), run.elements(), cpu_s(), memory_bytes(), queued_s())


def cpu_s() -> float:
    """Return the CPU seconds of this process, of its children that have ended, and on Linux of those that run."""
    times = os.times()
    own = time.process_time() + times.children_user + times.children_system
    return own + sum(_fields_s(pid) for pid in _children(os.getpid()))


def queued_s() -> float:
    """Return how long the threads of this process have waited for a core; 0 where Linux does not tell."""
    total_ns = 0
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                total_ns += int(file.read().split()[1])
    except (OSError, IndexError):
        return 0.0
    return total_ns / 1e9


def memory_bytes() -> int | None:
    """Return the resident memory of this process and of its children; None where /proc is missing."""
    try:
        return sum(_resident(pid) for pid in (os.getpid(), *_children(os.getpid())))
    except OSError:
        return None


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[RSS_FIELD]) * os.sysconf("SC_PAGE_SIZE")


def _fields_s(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> Iterator[int]:
    """Yield the processes below one; none where /proc is missing."""
    for child in _direct_children(pid):
        yield child
        yield from _children(child)


def _direct_children(pid: int) -> Iterable[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # the kernel or the system does not tell
    return found
