"""The blueprint of a windowed computation: an immutable list of steps, checked when it is built.

It can be compiled any number of times. A mistake that is visible without data raises BuildError at the line that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from streamactors.errors import BuildError
from streamactors.windows.definitions.aggregator import Aggregator
from streamactors.windows.definitions.duration import Duration, to_ms
from streamactors.windows.definitions.names import checked_name, topic_of
from streamactors.windows.definitions.suppressed import Suppressed
from streamactors.windows.definitions.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
    grace_of,
)

Semantics: TypeAlias = Literal["strict", "kafka"]
_SEMANTICS: Final = ("strict", "kafka")


@dataclass(frozen=True, slots=True)
class GroupByKeyStep:
    """Group records by their own key."""


@dataclass(frozen=True, slots=True)
class KeyByStep:
    """Group records by a new key."""

    fn: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RecordStep:
    """map or filter on records."""

    fn: Callable[[Any], Any]
    filters: bool


@dataclass(frozen=True, slots=True)
class WindowingStep:
    """The windows of an aggregation; `windows` of None: an aggregation without windows."""

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
    """How a task reads its inputs, and whether it keeps a changelog.

    `changelog`: keep one if the source offers it. `max_task_idle_ms`: Kafka's max.task.idle.ms, how long a task of several
    topics waits for a topic without rows after the broker has reported its end. None: no wait at all (Kafka: -1)."""

    changelog: bool = True
    max_task_idle_ms: int | None = 0


def intake(where: str, changelog: object, max_task_idle: Duration | None) -> Intake:
    """Check the parameters of group_by_key, key_by or to_table."""
    if not isinstance(changelog, bool):
        raise BuildError(f"{where}: changelog is {changelog!r}; give True or False")
    idle_ms = None if max_task_idle is None else to_ms(max_task_idle, f"{where}: max_task_idle")
    return Intake(changelog, idle_ms)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """`steps` in order. `numbers`: number of generated names. `idle_after_ms`: silence after which the wall clock moves
    stream time."""

    steps: tuple[Step, ...] = ()
    numbers: int = 0
    idle_after_ms: int | None = None
    intake: Intake = Intake()

    def __add__(self, behind: Blueprint) -> Blueprint:
        """Return both blueprints as one task. Raises BuildError if they use a name twice."""
        twice = set(self.nodes) & set(behind.nodes)
        if twice:
            raise BuildError(f"the name {min(twice)!r} is used by two steps; names must differ")
        first = self if any(isinstance(step, GroupByKeyStep | KeyByStep) for step in self.steps) else behind
        steps, numbers = self.steps + behind.steps, max(self.numbers, behind.numbers)
        return Blueprint(steps, numbers, self.idle_after_ms, first.intake).with_idle_after(behind.idle_after_ms)

    def then(self, step: Step) -> Blueprint:
        return replace(self, steps=(*self.steps, step))

    def with_idle_after(self, idle_after: Duration | None) -> Blueprint:
        """Advance stream time with the wall clock once the input has been silent for so long (ms, a timedelta or a text)."""
        if idle_after is None:
            return self
        ms = to_ms(idle_after, "idle_after", minimum=1)
        if self.idle_after_ms not in (None, ms):
            raise BuildError(
                f"idle_after is {self.idle_after_ms} ms already, now {ms} ms: an input has one idle timeout"
            )
        return replace(self, idle_after_ms=ms)

    def named(self, name: str | None, kind: str, stores: bool = True) -> tuple[Blueprint, str, str]:
        """Return the blueprint with a new node, the name of the node and the name of its store.

        The store of a node with a given name is `name`-store. Without a name, node and store take two running numbers. A
        new node shifts all later numbers, so a node whose state must survive such a change needs a name."""
        if name is None:
            node = f"{kind}-{self.numbers:010d}"
            store = f"{kind}-store-{self.numbers + 1:010d}"
            return replace(self, numbers=self.numbers + 1 + stores), node, store
        checked_name(kind, name)
        if name in self.nodes:
            raise BuildError(f"{kind}: the name {name!r} is used by another step; names must differ")
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
        """The windows of the last table."""
        for step in reversed(self.steps):
            if isinstance(step, AggregateStep):
                return step.windowing
            if isinstance(step, ToTableStep):
                break
        return WindowingStep()

    @property
    def changes_keys(self) -> bool:
        """Whether rows are grouped by a key that did not choose their partition."""
        return any(isinstance(step, KeyByStep) for step in self.steps)

    def with_keys_given(self) -> tuple[Blueprint, Callable[[Any], Any]]:
        """Return the same steps for rows that already have their new keys, and the key function."""
        first = self.steps[0]
        assert isinstance(first, KeyByStep)
        return replace(self, steps=(GroupByKeyStep(), *self.steps[1:])), first.fn

    @property
    def late(self) -> Any:
        """The sink given as `late=`, or None."""
        return next(
            (s.windowing.late for s in self.steps if isinstance(s, AggregateStep) and s.windowing.late is not None),
            None,
        )


def changelog_topic(application: str, store: str) -> str:
    """Return the name of a store's changelog topic, as in Kafka Streams."""
    return topic_of(f"the store {store!r}", application, store, "changelog")


def windowing(windows: object, semantics: object, retention: Duration | None, late: Any) -> WindowingStep:
    """Check the parameters of windowed_by."""
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
            f"windowed_by: retention is {kept} ms, but {windows.shape} with a grace of {windows.grace_ms} ms need "
            f"{needed} ms; make it at least that, or leave it out"
        )
    return WindowingStep(windows, "kafka" if semantics == "kafka" else "strict", kept, late)
