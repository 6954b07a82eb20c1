"""What lies between the stream and Spark: rows, cut at marks, until Spark's checkpoint has them. No clock, thread or Spark in here.

Rows come in chunks; a mark ends a segment. A batch is the range between two cuts, a row of whole segments. At most one batch is given to
Spark at a time; beside it the next one is gathered.

    waiting ──begin(start)──────────────────────────► giving ──end of input, all acknowledged──► over
       └─────begin(start, until)──► repeating ──every partition at its `until`──► giving

Positions are named by text, as in Spark's offset log: "0/flights-2" is partition flights-2 of the run's first source."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamactors.engine.marks import PositionMark, merge_newer
from streamactors.spark.errors import CheckpointError

Positions = dict[str, int]

PLENTY = 1 << 30
"""Rows that may come while an earlier batch is repeated: as many as it had."""


class Phase(enum.Enum):
    """Where the sink stands."""

    WAITING = "waiting"  # Spark has not said yet where to begin
    REPEATING = "repeating"  # an earlier batch is gathered again, to its old end
    GIVING = "giving"  # batch after batch


@dataclass(slots=True)
class Segment:
    """Rows between two marks. `positions` and `mark` say the same, by name and by source."""

    rows: int
    chunks: list[Any]
    positions: Positions
    mark: PositionMark


@dataclass(slots=True)
class Batch:
    """A range that Spark was given: everything from `start` to before `end`."""

    start: Positions
    end: Positions
    rows: int = 0
    chunks: list[Any] = field(default_factory=list)
    mark: PositionMark = field(default_factory=dict)


class BatchState:
    """See the module."""

    def __init__(self) -> None:
        self.phase = Phase.WAITING
        self.position: Positions = {}  # Spark's checkpoint has everything before
        self.given: Batch | None = None
        self.segments: deque[Segment] = deque()
        self.rows = 0  # in the segments
        self.tail: list[Any] = []  # behind the last mark
        self.tail_rows = 0
        self.input_over = False
        self._until: Positions = {}

    # ── from Spark ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None = None) -> None:
        """The first thing Spark says: go on at `start`; or repeat the batch from `start` to `until` first."""
        assert self.phase is Phase.WAITING
        self.position = dict(start)
        if until is None or dict(until) == self.position:
            self.phase = Phase.GIVING
        else:
            self._until = dict(until)
            self.phase = Phase.REPEATING

    def acknowledge(self, start: Mapping[str, int]) -> PositionMark:
        """Spark asks for what follows `start`, so its checkpoint has all before: return what became done by that.

        Raises CheckpointError if `start` is neither the end of the batch it was given nor where it stood before."""
        if self.given is not None and dict(start) == self.given.end:
            done = self.given.mark
            self.position = self.given.end
            self.given = None
            return done
        if dict(start) == self.position:
            return {}
        raise CheckpointError(
            f"Spark asks for what follows {dict(start)}, but was given nothing that ends there (it stands at "
            f"{self.position}); its checkpoint was changed while the query ran"
        )

    def cut(
        self, max_rows: int, *, done_elsewhere: Callable[[PositionMark], bool] = lambda _: True, empty_too: bool = False
    ) -> Batch | None:
        """Return the batch to give next: the segments that fit into `max_rows`, at least one; None when there is nothing.

        The batch ends at a mark that `done_elsewhere` agrees to. One without rows is given only with `empty_too`. Until it is
        acknowledged, the same batch is returned again."""
        if self.given is not None or self.phase is not Phase.GIVING:
            return self.given
        rows = fitting = 0
        for segment in self.segments:
            rows += segment.rows
            if (fitting and rows > max_rows) or not done_elsewhere(segment.mark):
                break
            fitting += 1
        if not fitting or (not empty_too and not any(self.segments[i].rows for i in range(fitting))):
            return None
        self.given = self._take(fitting, None)
        return self.given

    def batch(self, start: Mapping[str, int], end: Mapping[str, int]) -> Batch:
        """Return the batch of that range. Raises CheckpointError if it is not the one that was given."""
        if dict(start) == dict(end):
            return Batch(dict(start), dict(end))
        given = self.given
        if given is None or given.start != dict(start) or given.end != dict(end):
            raise CheckpointError(
                f"Spark asks for the batch from {dict(start)} to {dict(end)}, which is not retained; "
                "its checkpoint was changed while the query ran"
            )
        return given

    # ── from the stream ───────────────────────────────────────────────────────────────────────────────────────────

    def add(self, chunk: Any, rows: int) -> None:
        """Rows have come."""
        self.tail.append(chunk)
        self.tail_rows += rows

    def mark(self, positions: Mapping[str, int], mark: PositionMark) -> PositionMark:
        """A mark has come behind them. Return what of it is done already: it says nothing that the checkpoint did not know.

        Raises CheckpointError when a batch is repeated and a source went past its end."""
        segments = self.segments
        if not self.tail_rows and all(self._reached().get(name) == place for name, place in positions.items()):
            return mark if not segments and self.given is None else {}
        if not self.tail_rows and segments:
            segments[-1].positions.update(positions)
            merge_newer(segments[-1].mark, mark)
        else:
            segments.append(Segment(self.tail_rows, self.tail, dict(positions), dict(mark)))
            self.rows += self.tail_rows
            self.tail, self.tail_rows = [], 0
        if self.phase is Phase.REPEATING:
            self._try_to_finish_repeating()
        return {}

    def end_of_input(self) -> None:
        """Nothing more will come. Rows behind the last mark are dropped: no mark covers them, so they come again.

        Raises CheckpointError when a batch could not be repeated to its end."""
        self.input_over = True
        self.tail, self.tail_rows = [], 0
        if self.phase is Phase.REPEATING:
            short = [
                f"{name} at {place}" for name, place in self._reached().items() if place < self._until.get(name, 0)
            ]
            raise CheckpointError(
                f"the batch that ends at {self._until} cannot be repeated: the input ended with {', '.join(short)}; "
                "is it the data that the checkpoint was written for?"
            )

    # ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def room(self, target: int) -> int:
        """Return how many rows may still be gathered for a next batch of `target` rows. Without any mark so far: a few more."""
        if self.phase is Phase.WAITING or self.input_over:
            return 0
        if self.phase is Phase.REPEATING:
            return PLENTY if self.given is None else 0
        missing = target - self.rows - self.tail_rows
        if missing <= 0 and not self.segments:
            return max(1, self.tail_rows)  # no mark to cut at: the element that makes so many rows is not through yet
        return max(0, missing)

    @property
    def over(self) -> bool:
        """True when the input has ended and Spark's checkpoint has all of it."""
        return self.input_over and self.given is None and not self.segments

    @property
    def retained_rows(self) -> int:
        """Rows held for Spark: given, gathered, and behind the last mark."""
        return (self.given.rows if self.given is not None else 0) + self.rows + self.tail_rows

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reached(self) -> Positions:
        reached = dict(self.given.end if self.given is not None else self.position)
        for segment in self.segments:
            reached.update(segment.positions)
        return reached

    def _take(self, count: int, end: Positions | None) -> Batch:
        start = self.position
        batch = Batch(start, dict(start))
        for _ in range(count):
            segment = self.segments.popleft()
            batch.rows += segment.rows
            batch.chunks += segment.chunks
            batch.end.update(segment.positions)
            merge_newer(batch.mark, segment.mark)
        self.rows -= batch.rows
        if end is not None:
            batch.end = end
        batch.end = dict(sorted(batch.end.items()))
        return batch

    def _try_to_finish_repeating(self) -> None:
        reached = self._reached()
        beyond = {name: place for name, place in self._until.items() if reached.get(name, -1) > place}
        if beyond:
            raise CheckpointError(
                f"the batch that ends at {self._until} cannot be repeated: no mark stands there, the next are at "
                f"{ {name: reached[name] for name in beyond} }; is it the graph that the checkpoint was written for?"
            )
        if all(reached.get(name) == place for name, place in self._until.items()):
            self.given = self._take(len(self.segments), self._until)
            self.phase = Phase.GIVING
