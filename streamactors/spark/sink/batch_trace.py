"""The span of a batch that Spark writes, where traces are installed: it links the sampled records that the batch stems from.

The function of the batch runs while the span is the current one. A batch without sampled records has no span.

Owner: the sink. The function is called on Spark's callback thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.engine.marks.marks import Key, Position, PositionMark

if TYPE_CHECKING:
    from streamactors.tracing.run_trace import RunTrace

Write = Callable[[Any, int, str], object]


class BatchTrace:
    """`given()` returns the mark before which the rows of the batch lie that Spark writes now; None while Spark repeats a batch of an earlier run."""

    def __init__(self, trace: RunTrace, name: str, given: Callable[[], PositionMark | None]) -> None:
        self._trace = trace
        self._name = name
        self._given = given
        self._written: dict[Key, Position] = {}  # the rows before these positions were written

    def around(self, write: Write) -> Write:
        """Return a function that calls `write` in the span of its batch."""

        def written(frame: Any, epoch: int, query_id: str) -> object:
            mark = self._given()
            records = () if mark is None else self._trace.between(self._written, mark, note=False)
            spans = self._trace.spans
            span = None
            if records:
                span = spans.batch(self._name, epoch, [record.span.get_span_context() for record in records])
            if span is None:
                return write(frame, epoch, query_id)
            leave = spans.enter(span)
            try:
                result = write(frame, epoch, query_id)
            except BaseException as error:
                spans.raised(error)
                raise
            finally:
                leave()
                span.end()
            self._trace.between(self._written, mark or {}, note=True)
            return result

        return written
