"""JoinWindows: which rows of two streams belong together.

Owner: the user's topology; immutable. A left row of time t and a right row of time u match if t - before <= u <= t + after,
bounds included. Names and rules are those of Kafka Streams' JoinWindows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamactors.durations import MAX_MS, EventSpan, event_ms
from streamactors.errors import BuildError


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Made by `of`. `grace_ms` of None: no grace was given yet."""

    before_ms: int
    """How much older a row of the other side may be, in milliseconds of event time."""
    after_ms: int
    """How much newer a row of the other side may be, in milliseconds of event time."""
    grace_ms: int | None = None
    """How late a row may come, in milliseconds of event time. None: `grace` was not called."""

    @classmethod
    def of(cls, difference: EventSpan) -> JoinWindows:
        """Rows at most `difference` (ms, a timedelta or a string) apart match, whichever comes first."""
        ms = event_ms(difference, "JoinWindows: difference")
        return cls(ms, ms)

    def before(self, before: EventSpan) -> JoinWindows:
        """Right rows may be earlier than the left row by at most `before` (ms, a timedelta or a string); negative: they must be later."""
        return self._with(replace(self, before_ms=event_ms(before, "JoinWindows: before", minimum=-MAX_MS)))

    def after(self, after: EventSpan) -> JoinWindows:
        """Right rows may be later than the left row by at most `after` (ms, a timedelta or a string); negative: they must be earlier."""
        return self._with(replace(self, after_ms=event_ms(after, "JoinWindows: after", minimum=-MAX_MS)))

    def with_grace(self, grace: EventSpan) -> JoinWindows:
        """Wait for late rows until stream time has passed a row's window by `grace` (ms, a timedelta or a string)."""
        return replace(self, grace_ms=event_ms(grace, "JoinWindows: grace"))

    def with_no_grace(self) -> JoinWindows:
        """Wait for no late rows."""
        return replace(self, grace_ms=0)

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms

    @property
    def shape(self) -> str:
        """The definition that a changelog is checked against."""
        return f"a join of {self.before_ms} ms before to {self.after_ms} ms after"

    @staticmethod
    def _with(windows: JoinWindows) -> JoinWindows:
        if windows.size_ms < 0:
            raise BuildError(
                f"JoinWindows: before {windows.before_ms} ms + after {windows.after_ms} ms is negative, so no rows "
                "could match; make one of them larger"
            )
        return windows
