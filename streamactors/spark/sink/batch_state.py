"""The rows between the stream and Spark, until Spark's checkpoint covers them. Pure: no clock, thread or Spark.

Rows come in chunks; a mark ends a segment. A batch is a range between two marks: some whole segments in their order. Spark has at most one
batch at a time; meanwhile the next one is gathered.

    WAITING ──begin(start)──────────────────────────► GIVING
       └─────begin(start, until)──► REPEATING ──every partition at its `until`──► GIVING

GIVING is the last phase. The state is `over` when the input has ended and Spark has acknowledged every batch.

A source places a mark at the end of a range that is repeated. Queues merge marks with no row between them, so this mark may arrive as a later
one: the first mark at or after the end closes the range.

Positions are named by text, as in Spark's offset log: "0/flights-2" is partition flights-2 of the run's first source."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamactors.engine.marks.marks import PositionMark, merge_newer
from streamactors.engine.marks.ownership import Positions
from streamactors.spark.errors import CheckpointError

PLENTY = 1 << 30
"""Room while an earlier batch is repeated, which may have any number of rows."""


class BatchPhase(enum.Enum):
    """What the sink does."""

    WAITING = "waiting"  # Spark has not asked yet, so the first position is not known
    REPEATING = "repeating"  # an earlier batch is gathered again, to its old end
    GIVING = "giving"  # batch after batch


@dataclass(slots=True)
class MarkedRows:
    """Rows between two marks. `positions` and `mark` say the same, by name and by source."""

    rows: int
    chunks: list[Any]
    positions: Positions
    mark: PositionMark


@dataclass(slots=True)
class MicroBatch:
    """A range that Spark was given: everything from `start` to before `end`."""

    start: Positions
    end: Positions
    rows: int = 0
    chunks: list[Any] = field(default_factory=list)
    mark: PositionMark = field(default_factory=dict)


class BatchState:
    """The rows and marks of one sink, and the batch that Spark has."""

    def __init__(self) -> None:
        self.phase = BatchPhase.WAITING
        self.position: Positions = {}  # Spark's checkpoint covers everything before it
        self.given: MicroBatch | None = None
        self.segments: deque[MarkedRows] = deque()
        self.rows = 0  # in the segments
        self.tail: list[Any] = []  # after the last mark
        self.tail_rows = 0
        self.input_over = False
        self._until: Positions = {}

    # ── from Spark ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None = None) -> None:
        """Spark's first request: continue at `start`; with `until`, first repeat the batch from `start` to `until`."""
        assert self.phase is BatchPhase.WAITING
        self.position = dict(start)
        if until is None or dict(until) == self.position:
            self.phase = BatchPhase.GIVING
        else:
            self._until = dict(until)
            self.phase = BatchPhase.REPEATING

    def acknowledge(self, start: Mapping[str, int]) -> PositionMark:
        """Spark asks for the batch that follows `start`, so its checkpoint covers everything before: return the mark that became done.

        Raises CheckpointError if `start` is neither the end of the batch it was given nor its position before."""
        if self.given is not None and dict(start) == self.given.end:
            done = self.given.mark
            self.position = self.given.end
            self.given = None
            return done
        if dict(start) == self.position:
            return {}
        raise CheckpointError(
            f"Spark asks for what follows {dict(start)}, but was given nothing that ends there (it is at "
            f"{self.position}); its checkpoint was changed while the query ran"
        )

    def cut(
        self, max_rows: int, *, others_behind: Callable[[PositionMark], bool] = lambda _: False, empty_too: bool = False
    ) -> MicroBatch | None:
        """Return the batch to give next: the segments that fit into `max_rows`, at least one; None when there is no segment.

        The batch ends at a mark that no other sink of the run is behind. One without rows is given only with `empty_too`. Until it is
        acknowledged, the same batch is returned again."""
        if self.given is not None or self.phase is not BatchPhase.GIVING:
            return self.given
        rows = fitting = 0
        for segment in self.segments:
            rows += segment.rows
            if (fitting and rows > max_rows) or others_behind(segment.mark):
                break
            fitting += 1
        if not fitting or (not empty_too and not any(self.segments[i].rows for i in range(fitting))):
            return None
        self.given = self._take(fitting, None)
        return self.given

    def batch(self, start: Mapping[str, int], end: Mapping[str, int]) -> MicroBatch:
        """Return the batch of that range. Raises CheckpointError if it is not the one that was given."""
        if dict(start) == dict(end):
            return MicroBatch(dict(start), dict(end))
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
        """A mark has come after the rows. Return the mark if it is done already, because the checkpoint covers it.

        Raises CheckpointError when a batch is repeated and rows have come from after its end, and when a source ended before the checkpoint."""
        segments = self.segments
        reached = self._reached()
        for name, place in positions.items():
            if place < self.position.get(name, place):
                raise CheckpointError(
                    f"the checkpoint continues at {self.position[name]} of {name}, but the input ends at {place}: it is not the data that the "
                    "checkpoint was written for; give other data a checkpoint of its own"
                )
        if not self.tail_rows and all(reached.get(name) == place for name, place in positions.items()):
            return mark if not segments and self.given is None else {}
        if self.phase is BatchPhase.REPEATING and self.tail_rows:
            self._check_within(reached, positions)
        if not self.tail_rows and segments:
            segments[-1].positions.update(positions)
            merge_newer(segments[-1].mark, mark)
        else:
            segments.append(MarkedRows(self.tail_rows, self.tail, dict(positions), dict(mark)))
            self.rows += self.tail_rows
            self.tail, self.tail_rows = [], 0
        if self.phase is BatchPhase.REPEATING:
            self._try_to_finish_repeating()
        return {}

    def end_of_input(self) -> None:
        """The input has ended. Rows after the last mark are dropped: no mark covers them, so the next run reads them again.

        Raises CheckpointError when a batch could not be repeated to its end."""
        self.input_over = True
        self.tail, self.tail_rows = [], 0
        if self.phase is BatchPhase.REPEATING:
            short = [
                f"{name} at {place}" for name, place in self._reached().items() if place < self._until.get(name, 0)
            ]
            raise CheckpointError(
                f"the batch that ends at {self._until} cannot be repeated: the input ended with {', '.join(short)}; "
                "is it the data that the checkpoint was written for?"
            )

    # ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def room(self, target: int) -> int:
        """Return how many rows may still be gathered for the next batch of `target` rows. The batch that Spark has does not count.

        While no mark has come after a row there is always room, because a batch ends at a mark: at least one row, and at least as many as
        came so far."""
        if self.phase is BatchPhase.WAITING or self.input_over:
            return 0
        if self.phase is BatchPhase.REPEATING:
            return PLENTY
        missing = target - self.rows - self.tail_rows
        if missing <= 0 and not self.rows:
            return max(1, self.tail_rows)  # no rows to cut at a mark yet: one element may have made all these rows
        return max(0, missing)

    @property
    def over(self) -> bool:
        """True when the input has ended and Spark's checkpoint has all of it."""
        return self.input_over and self.given is None and not self.segments

    @property
    def retained_rows(self) -> int:
        """Rows held for Spark: given, gathered, and after the last mark."""
        return (self.given.rows if self.given is not None else 0) + self.rows + self.tail_rows

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reached(self) -> Positions:
        reached = dict(self.given.end if self.given is not None else self.position)
        for segment in self.segments:
            reached.update(segment.positions)
        return reached

    def _take(self, count: int, end: Positions | None) -> MicroBatch:
        start = self.position
        first = self.segments.popleft()
        batch = MicroBatch(start, start | first.positions, first.rows, first.chunks, first.mark)
        for _ in range(count - 1):
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

    def _check_within(self, reached: Positions, positions: Mapping[str, int]) -> None:
        """Raise CheckpointError if the rows before the mark at `positions` may stem from after the repeated batch's end.

        A source holds its elements from after the end until all of its partitions have reached their ends. It knows nothing of the other
        sources of the run: the first of two that are joined by concat may have more elements than before."""
        unfinished = {_source_of(name) for name, end in self._until.items() if reached.get(name, -1) < end}
        beyond = {
            name: place
            for name, place in positions.items()
            if _source_of(name) not in unfinished and place > reached.get(name, -1)
        }
        if beyond:
            raise CheckpointError(
                f"the batch that ends at {self._until} cannot be repeated: before all of it had come, rows came from after its end, up to "
                f"{beyond}; is it the graph that the checkpoint was written for?"
            )

    def _try_to_finish_repeating(self) -> None:
        reached, until = self._reached(), self._until
        if any(reached.get(name, -1) < place for name, place in until.items()):
            return
        self.given = given = self._take(len(self.segments), until)
        beyond = {name: place for name, place in reached.items() if place > until.get(name, -1)}
        if beyond:  # what lies between was dropped on purpose
            self.segments.append(MarkedRows(0, [], beyond, given.mark.copy()))
        self.phase = BatchPhase.GIVING


def _source_of(name: str) -> str:
    return name.partition("/")[0]
