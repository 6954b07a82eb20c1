"""What to hold back and how much: the values given to `.suppress(…)`.

Owner: the user's blueprint; immutable. Names and rules are those of Kafka Streams' Suppressed, plus early results and
a timer that restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from streamactors.errors import BuildError
from streamactors.windows.duration import Duration, to_ms


class BufferPolicyError(BuildError, TypeError):
    """A buffer that the suppression cannot have, refused by its type."""


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much a suppress buffer may hold; None is no bound. Begin with `unbounded`, `max_records` or `max_bytes`."""

    record_bound: int | None = None
    byte_bound: int | None = None

    @staticmethod
    def unbounded() -> StrictBuffer:
        """Everything that must wait."""
        return StrictBuffer()

    @staticmethod
    def max_records(count: int) -> BoundedBuffer:
        """At most `count` entries; say what happens then, or leave it to the suppression: until_window_closes shuts
        down, until_time_limit emits early."""
        return BoundedBuffer(_bound(count, "max_records"), None)

    @staticmethod
    def max_bytes(count: int) -> BoundedBuffer:
        """At most `count` bytes of serialised entries; as max_records."""
        return BoundedBuffer(None, _bound(count, "max_bytes"))

    def emit_early_when_full(self) -> EagerBuffer:
        """Let the oldest entries go, as many as needed. Not for until_window_closes: they would not be final."""
        return EagerBuffer(self.record_bound, self.byte_bound)

    def shut_down_when_full(self) -> StrictBuffer:
        """Fail with BufferFull, so that no result is given out early."""
        return StrictBuffer(self.record_bound, self.byte_bound)

    def with_no_bound(self) -> StrictBuffer:
        return StrictBuffer()


@dataclass(frozen=True, slots=True)
class StrictBuffer(BufferConfig):
    """Never gives out anything before its time: unbounded, or fails when full."""

    def with_max_records(self, count: int) -> StrictBuffer:
        return replace(self, record_bound=_bound(count, "max_records"))

    def with_max_bytes(self, count: int) -> StrictBuffer:
        return replace(self, byte_bound=_bound(count, "max_bytes"))


@dataclass(frozen=True, slots=True)
class EagerBuffer(BufferConfig):
    """Gives out the oldest entries when full."""

    def with_max_records(self, count: int) -> EagerBuffer:
        return replace(self, record_bound=_bound(count, "max_records"))

    def with_max_bytes(self, count: int) -> EagerBuffer:
        return replace(self, byte_bound=_bound(count, "max_bytes"))


@dataclass(frozen=True, slots=True)
class BoundedBuffer(BufferConfig):
    """Bounded; what happens when it is full follows from where it is used."""

    def with_max_records(self, count: int) -> BoundedBuffer:
        return replace(self, record_bound=_bound(count, "max_records"))

    def with_max_bytes(self, count: int) -> BoundedBuffer:
        return replace(self, byte_bound=_bound(count, "max_bytes"))


def _bound(count: int, what: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise BuildError(f"BufferConfig: {what} is {count!r}; give a number of at least 0, or use unbounded()")
    return count


_UNBOUNDED: Final = StrictBuffer()


@dataclass(frozen=True, slots=True)
class Suppressed:
    """When updates of a table go out: `until_window_closes` or `until_time_limit`."""

    final: bool
    limit_ms: int
    buffer: BufferConfig
    name: str | None = None
    early_every_ms: int | None = None
    restarts_timer: bool = False

    @staticmethod
    def until_window_closes(buffer: StrictBuffer | BoundedBuffer = _UNBOUNDED) -> Suppressed:
        """Only the last update of a window, when stream time has passed its end by the grace period.

        Raises BufferPolicyError for a buffer that emits early: what it gave out would not be final."""
        _must_be_buffer(buffer, "until_window_closes")
        if isinstance(buffer, EagerBuffer):
            raise BufferPolicyError(
                "Suppressed.until_window_closes: a buffer with emit_early_when_full() would give out results that are "
                "not final; use unbounded() or shut_down_when_full(), or until_time_limit(…)"
            )
        return Suppressed(True, 0, buffer)

    @staticmethod
    def until_time_limit(limit: Duration, buffer: BufferConfig) -> Suppressed:
        """At most one update of an entry every `limit` of stream time, counted from the first one held back."""
        _must_be_buffer(buffer, "until_time_limit")
        return Suppressed(False, to_ms(limit, "Suppressed.until_time_limit: limit"), buffer)

    def with_name(self, name: str) -> Suppressed:
        """Name the operator; its store is then `name`-store."""
        if not isinstance(name, str) or not name:
            raise BuildError(f"Suppressed: name is {name!r}; give a text that is not empty")
        return replace(self, name=name)

    def with_early_results(self, every: Duration = 0) -> Suppressed:
        """Pass updates on at once as well, marked is_final=False; at most one per window and `every` of stream time.

        The final one follows with is_final=True. Only for until_window_closes."""
        if not self.final:
            raise BuildError("Suppressed.until_time_limit has no final results, so it has no early ones either")
        return replace(self, early_every_ms=to_ms(every, "Suppressed: early results every"))

    def restart_timer_on_update(self) -> Suppressed:
        """Wait for `limit` of stream time without an update (debounce) instead of since the first one."""
        if self.final:
            raise BuildError("Suppressed.until_window_closes waits for the window, it has no timer to restart")
        return replace(self, restarts_timer=True)

    @property
    def emits_early(self) -> bool:
        """What happens when the buffer is full: let the oldest go (True) or fail."""
        return isinstance(self.buffer, EagerBuffer) or (not self.final and isinstance(self.buffer, BoundedBuffer))


def _must_be_buffer(buffer: object, where: str) -> None:
    if not isinstance(buffer, BufferConfig):
        raise BufferPolicyError(
            f"Suppressed.{where}: {buffer!r} is no buffer; give BufferConfig.unbounded() or BufferConfig.max_records(n)"
        )
