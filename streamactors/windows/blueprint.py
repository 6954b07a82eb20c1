"""The blueprint of a windowed computation: an immutable list of steps, checked as it is written.

Owner: whoever holds it; it can be compiled any number of times. Every mistake that can be seen without data is a
BuildError at the line that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from streamactors.errors import BuildError
from streamactors.windows.aggregator import Aggregator
from streamactors.windows.definitions import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
    grace_of,
)
from streamactors.windows.duration import Duration, to_ms
from streamactors.windows.suppressed import Suppressed

Semantics: TypeAlias = Literal["strict", "kafka"]
_SEMANTICS: Final = ("strict", "kafka")


@dataclass(frozen=True, slots=True)
class GroupByKeyStep:
    """Take records by the key they have."""


@dataclass(frozen=True, slots=True)
class KeyByStep:
    """Give every record a new key."""

    fn: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RecordStep:
    """map or filter on records."""

    fn: Callable[[Any], Any]
    filters: bool


@dataclass(frozen=True, slots=True)
class WindowingStep:
    """How an aggregation sees time; None as windows: it does not."""

    windows: Windows | None = None
    semantics: Semantics = "strict"
    retention_ms: int = 0
    late: Any = None


@dataclass(frozen=True, slots=True)
class AggregateStep:
    """count, reduce or aggregate."""

    windowing: WindowingStep
    aggregator: Aggregator
    node: str
    store: str
    emits_on_close: bool = False


@dataclass(frozen=True, slots=True)
class ToTableStep:
    """The latest value of each key."""

    node: str
    store: str


@dataclass(frozen=True, slots=True)
class TableStep:
    """filter or map_values on a table."""

    fn: Callable[[Any], Any]
    filters: bool
    node: str


@dataclass(frozen=True, slots=True)
class SuppressStep:
    """Hold back updates."""

    suppressed: Suppressed
    node: str
    store: str


@dataclass(frozen=True, slots=True)
class ToStreamStep:
    """Updates become elements."""


Step: TypeAlias = (
    GroupByKeyStep | KeyByStep | RecordStep | AggregateStep | ToTableStep | TableStep | SuppressStep | ToStreamStep
)


@dataclass(frozen=True, slots=True)
class Intake:
    """How a task takes rows from its inputs, and whether it keeps its state beside them.

    `changelog`: keep one if the source offers it. `max_task_idle_ms`: how long a task of several topics waits for rows that
    one of them does not have yet; None: not even for those it has (Kafka's max.task.idle.ms, where that is -1)."""

    changelog: bool = True
    max_task_idle_ms: int | None = 0


def intake(where: str, changelog: object, max_task_idle: Duration | None) -> Intake:
    """Check what `group_by_key` and its like were given."""
    if not isinstance(changelog, bool):
        raise BuildError(f"{where}: changelog is {changelog!r}; give True or False")
    idle_ms = None if max_task_idle is None else to_ms(max_task_idle, f"{where}: max_task_idle")
    return Intake(changelog, idle_ms)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """`steps` in order; `numbers`: how many generated names there are; `idle_after_ms`: close by wall clock; `intake`."""

    steps: tuple[Step, ...] = ()
    numbers: int = 0
    idle_after_ms: int | None = None
    intake: Intake = Intake()

    def __add__(self, behind: Blueprint) -> Blueprint:
        """One blueprint behind another, in one task. Raises BuildError if they use a name twice."""
        twice = set(self.nodes) & set(behind.nodes)
        if twice:
            raise BuildError(f"the name {min(twice)!r} is used by two steps; names must differ")
        first = self if any(isinstance(step, GroupByKeyStep | KeyByStep) for step in self.steps) else behind
        steps, numbers = self.steps + behind.steps, max(self.numbers, behind.numbers)
        return Blueprint(steps, numbers, self.idle_after_ms, first.intake).with_idle_after(behind.idle_after_ms)

    def then(self, step: Step) -> Blueprint:
        return replace(self, steps=(*self.steps, step))

    def with_idle_after(self, idle_after: Duration | None) -> Blueprint:
        """Let stream time go on by wall clock once the input has been silent for so long."""
        if idle_after is None:
            return self
        ms = to_ms(idle_after, "idle_after", minimum=1)
        if self.idle_after_ms not in (None, ms):
            raise BuildError(
                f"idle_after is {self.idle_after_ms} ms already, now {ms} ms: an input has one idle timeout"
            )
        return replace(self, idle_after_ms=ms)

    def named(self, name: str | None, kind: str, stores: bool = True) -> tuple[Blueprint, str, str]:
        """The blueprint behind a new node, the node's name and that of its store.

        A given name is the node's, and the store is called name-store. Otherwise node and store take two running
        numbers, which shifts every later generated name: name what keeps state you want to find again."""
        if name is None:
            node = f"{kind}-{self.numbers:010d}"
            store = f"{kind}-store-{self.numbers + 1:010d}"
            return replace(self, numbers=self.numbers + 1 + stores), node, store
        if not isinstance(name, str) or not name:
            raise BuildError(f"{kind}: name is {name!r}; give a text that is not empty")
        if name in self.nodes:
            raise BuildError(f"{kind}: the name {name!r} is taken by another step; names must differ")
        return self, name, f"{name}-store"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the steps that have one."""
        return tuple(
            step.node for step in self.steps if isinstance(step, AggregateStep | ToTableStep | TableStep | SuppressStep)
        )

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores."""
        return tuple(step.store for step in self.steps if isinstance(step, AggregateStep | ToTableStep | SuppressStep))

    @property
    def windowing(self) -> WindowingStep:
        """How the table that the steps end in sees time."""
        for step in reversed(self.steps):
            if isinstance(step, AggregateStep):
                return step.windowing
            if isinstance(step, ToTableStep):
                break
        return WindowingStep()

    @property
    def changes_keys(self) -> bool:
        """Whether rows are aggregated by other keys than those their partitions were chosen by."""
        return any(isinstance(step, KeyByStep) for step in self.steps)

    def with_keys_given(self) -> tuple[Blueprint, Callable[[Any], Any]]:
        """The same steps for rows that have their new keys already, and the function that gives them."""
        first = self.steps[0]
        assert isinstance(first, KeyByStep)
        return replace(self, steps=(GroupByKeyStep(), *self.steps[1:])), first.fn

    @property
    def late(self) -> Any:
        """What was given as `late=`, None if nothing was."""
        return next(
            (s.windowing.late for s in self.steps if isinstance(s, AggregateStep) and s.windowing.late is not None),
            None,
        )


def changelog_topic(application: str, store: str) -> str:
    """Name of the topic that keeps a store's changes, as in Kafka Streams."""
    return f"{application}-{store}-changelog"


def windowing(windows: object, semantics: object, retention: Duration | None, late: Any) -> WindowingStep:
    """Check what `windowed_by` was given."""
    if not isinstance(windows, TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows):
        raise BuildError(
            f"windowed_by: {windows!r} is no window definition; give TimeWindows.of_size(…), SessionWindows.with_gap(…), "
            "SlidingWindows.of_difference(…) or UnlimitedWindows.of()"
        )
    if semantics not in _SEMANTICS:
        raise BuildError(f'windowed_by: semantics is {semantics!r}; choose "strict" or "kafka"')
    grace_of(windows)
    needed = windows.shortest_retention_ms
    kept = needed if retention is None else to_ms(retention, "windowed_by: retention")
    if kept < needed:
        raise BuildError(
            f"windowed_by: retention is {kept} ms, but {windows.shape} with a grace of {windows.grace_ms} ms are looked "
            f"at for {needed} ms; make it at least that, or leave it out"
        )
    return WindowingStep(windows, "kafka" if semantics == "kafka" else "strict", kept, late)
