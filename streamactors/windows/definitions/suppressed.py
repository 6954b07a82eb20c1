"""The arguments of `.suppress(…)`: which updates wait, and how many of them.

Owner: the user's blueprint; immutable. Names and rules are those of Kafka Streams' Suppressed, plus early results and
a timer that restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeVar

from streamactors.durations import EventSpan, event_ms
from streamactors.errors import BuildError
from streamactors.windows.definitions.names import checked_name


class BufferPolicyError(BuildError, TypeError):
    """The buffer does not fit the suppression."""


B = TypeVar("B", bound="BufferConfig")


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """The bounds of a suppress buffer; None: no bound. Made by `unbounded`, `max_records` or `max_bytes`."""

    record_bound: int | None = None
    """The most records of the buffer. None: no bound."""
    byte_bound: int | None = None
    """The most bytes of the buffer. None: no bound."""

    @staticmethod
    def unbounded() -> StrictBuffer:
        """No bound."""
        return StrictBuffer()

    @staticmethod
    def max_records(count: int) -> BoundedBuffer:
        """At most `count` entries. Without `emit_early_when_full` or `shut_down_when_full`, a full buffer fails with
        until_window_closes and emits early with until_time_limit."""
        return BoundedBuffer(_bound(count, "max_records"), None)

    @staticmethod
    def max_bytes(count: int) -> BoundedBuffer:
        """At most `count` bytes of serialised entries; a full buffer behaves as in max_records."""
        return BoundedBuffer(None, _bound(count, "max_bytes"))

    def emit_early_when_full(self) -> EagerBuffer:
        """A full buffer emits its oldest entries. Not for until_window_closes: they would not be final."""
        return EagerBuffer(self.record_bound, self.byte_bound)

    def shut_down_when_full(self) -> StrictBuffer:
        """A full buffer fails with BufferFull, so no result is emitted early."""
        return StrictBuffer(self.record_bound, self.byte_bound)

    def with_max_records(self: B, count: int) -> B:
        return replace(self, record_bound=_bound(count, "max_records"))

    def with_max_bytes(self: B, count: int) -> B:
        return replace(self, byte_bound=_bound(count, "max_bytes"))

    def with_no_bound(self) -> StrictBuffer:
        return StrictBuffer()


@dataclass(frozen=True, slots=True)
class StrictBuffer(BufferConfig):
    """Emits no entry early: unbounded, or fails when full."""


@dataclass(frozen=True, slots=True)
class EagerBuffer(BufferConfig):
    """Emits the oldest entries when full."""


@dataclass(frozen=True, slots=True)
class BoundedBuffer(BufferConfig):
    """Bounded; the suppression decides whether a full buffer fails or emits early."""


def _bound(count: int, what: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise BuildError(f"BufferConfig: {what} is {count!r}; give a number of at least 0, or use unbounded()")
    return count


_UNBOUNDED: Final = StrictBuffer()


@dataclass(frozen=True, slots=True)
class Suppressed:
    """When a suppression emits: `until_window_closes` or `until_time_limit`."""

    final: bool
    """True: a window is emitted once, when it closes."""
    limit_ms: int
    """How long an update waits for a newer one, in milliseconds of event time."""
    buffer: BufferConfig
    """The bounds of the buffer, and what happens when it is full."""
    name: str | None = None
    """The name of the buffer and of its changelog. None: a name is made."""
    early_every_ms: int | None = None
    """Also emit an open window this often, in milliseconds of event time. None: only the final result."""
    restarts_timer: bool = False
    """True: each update begins the time limit anew."""

    @staticmethod
    def until_window_closes(buffer: StrictBuffer | BoundedBuffer = _UNBOUNDED) -> Suppressed:
        """Emit only the last update of a window, when stream time has passed its end by the grace period.

        Raises BufferPolicyError for a buffer that emits early, because early results are not final."""
        _must_be_buffer(buffer, "until_window_closes")
        if isinstance(buffer, EagerBuffer):
            raise BufferPolicyError(
                "Suppressed.until_window_closes: a buffer with emit_early_when_full() would emit results that are "
                "not final; use unbounded() or shut_down_when_full(), or until_time_limit(…)"
            )
        return Suppressed(True, 0, buffer)

    @staticmethod
    def until_time_limit(limit: EventSpan, buffer: BufferConfig) -> Suppressed:
        """Emit at most one update of an entry every `limit` (ms, a timedelta or a string) of stream time, counted from the first one held back."""
        _must_be_buffer(buffer, "until_time_limit")
        return Suppressed(False, event_ms(limit, "Suppressed.until_time_limit: limit"), buffer)

    def with_name(self, name: str) -> Suppressed:
        """Name the operator; its store is then `name`-store."""
        return replace(self, name=checked_name("Suppressed", name))

    def with_early_results(self, every: EventSpan = 0) -> Suppressed:
        """Emit updates at once, too, with is_final=False: at most one per window and `every` (ms, a timedelta or a string) of stream time.

        The final result follows with is_final=True. Only for until_window_closes."""
        if not self.final:
            raise BuildError("Suppressed.until_time_limit has no final results, so it has no early ones either")
        return replace(self, early_every_ms=event_ms(every, "Suppressed: early results every"))

    def restart_timer_on_update(self) -> Suppressed:
        """Wait for `limit` of stream time without an update (debounce) instead of since the first one."""
        if self.final:
            raise BuildError("Suppressed.until_window_closes waits for the window, it has no timer to restart")
        return replace(self, restarts_timer=True)

    @property
    def emits_early(self) -> bool:
        """A full buffer emits its oldest entries (True) or fails."""
        return isinstance(self.buffer, EagerBuffer) or (not self.final and isinstance(self.buffer, BoundedBuffer))


def _must_be_buffer(buffer: object, where: str) -> None:
    if not isinstance(buffer, BufferConfig):
        raise BufferPolicyError(
            f"Suppressed.{where}: {buffer!r} is not a buffer; give BufferConfig.unbounded() or BufferConfig.max_records(n)"
        )
