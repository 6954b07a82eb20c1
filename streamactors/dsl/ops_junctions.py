"""Operators that bring in other sources or feed other sinks: merge, zip, concat and friends; also_to, divert_to, wire_tap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.ops import Ops
from streamactors.dsl.part import module_of
from streamactors.dsl.typevars import M2, M3, Mat, Out, U, V
from streamactors.stages.checks import plain_function
from streamactors.stages.fan_in import Concat, Interleave, Merge, MergePreferred, OrElse
from streamactors.stages.fan_out import Broadcast, Partition, WireTap
from streamactors.stages.zipping import ZipLatest, ZipN, ZipWith


class JunctionOps(Ops[Out, Mat]):
    """See the module. `other` is a source, `sink` a sink; the `_mat` forms say which materialized value is kept."""

    __slots__ = ()

    # ── other sources ─────────────────────────────────────────────────────────────────────────────────────────────

    def merge(self, *others: Any, eager_complete: bool = False) -> Ops[Any, Mat]:
        """Merge with other sources, taking elements as they come, fairly.

        Emits when: any input has an element.         Backpressures when: downstream does.
        Completes when: all inputs complete (eager_complete: any).   Cancels when: downstream cancels.
        """
        return self._fan_in(Merge(1 + len(others), eager_complete), *others)

    def merge_mat(self, other: Any, combine: Callable[[Mat, Any], M3], eager_complete: bool = False) -> Ops[Any, M3]:
        """As `merge` with one source; the materialized value is `combine(this part's, the other's)`."""
        return self._fan_in(Merge(2, eager_complete), other, combine=combine)

    def merge_preferred(self, other: Any, prefer_other: bool = False, eager_complete: bool = False) -> Ops[Any, Mat]:
        """Merge with another source; while the preferred one (this, or the other) has elements, the other waits.

        Emits when: an input has an element; the preferred first.    Backpressures when: downstream does.
        Completes when: both complete (eager_complete: any).         Cancels when: downstream cancels.
        """
        return self._fan_in(MergePreferred(1, eager_complete), other, at=1 if prefer_other else 0)

    def concat(self, *others: Any) -> Ops[Any, Mat]:
        """Emit this stream, then each other source in turn. One element of each may be fetched ahead.

        Emits when: the current input has an element. Backpressures when: downstream does.
        Completes when: all inputs complete.          Cancels when: downstream cancels.
        """
        return self._fan_in(Concat(1 + len(others)), *others)

    def concat_lazy(self, *others: Any) -> Ops[Any, Mat]:
        """As `concat`, without fetching ahead.

        Emits when: the current input has an element. Backpressures when: downstream does.
        Completes when: all inputs complete.          Cancels when: downstream cancels.
        """
        return self._fan_in(Concat(1 + len(others), detached=False), *others)

    def concat_mat(self, other: Any, combine: Callable[[Mat, Any], M3]) -> Ops[Any, M3]:
        """As `concat` with one source; the materialized value is `combine(this part's, the other's)`."""
        return self._fan_in(Concat(2), other, combine=combine)

    def prepend(self, other: Any) -> Ops[Any, Mat]:
        """Emit all of `other` first, then this stream, of which one element may be fetched ahead.

        Emits when: the current input has an element. Backpressures when: downstream does.
        Completes when: both complete.                Cancels when: downstream cancels.
        """
        return self._fan_in(Concat(2), other, at=1)

    def prepend_lazy(self, other: Any) -> Ops[Any, Mat]:
        """As `prepend`, without fetching ahead.

        Emits when: the current input has an element. Backpressures when: downstream does.
        Completes when: both complete.                Cancels when: downstream cancels.
        """
        return self._fan_in(Concat(2, detached=False), other, at=1)

    def or_else(self, other: Any) -> Ops[Any, Mat]:
        """Emit this stream; if it completes without an element, `other` instead.

        Emits when: the chosen input has an element.  Backpressures when: downstream does.
        Completes when: the chosen input completes.   Cancels when: downstream cancels.
        """
        return self._fan_in(OrElse(), other)

    def interleave(self, other: Any, segment: int = 1, eager_close: bool = False) -> Ops[Any, Mat]:
        """Take `segment` elements of each in turn, beginning with this stream; when one has ended, the other's go on.

        Emits when: the input whose turn it is has an element.   Backpressures when: downstream does.
        Completes when: both complete (eager_close: any).        Cancels when: downstream cancels.
        """
        return self._fan_in(Interleave(2, segment, eager_close), other)

    def zip(self, *others: Any) -> Ops[Any, Mat]:
        """Pair each element with the next one of each other source, as tuples.

        Emits when: every input has an element.       Backpressures when: downstream does.
        Completes when: any input does.               Cancels when: downstream cancels.
        """
        return self._fan_in(ZipN(1 + len(others)), *others)

    def zip_mat(self, other: Any, combine: Callable[[Mat, Any], M3]) -> Ops[Any, M3]:
        """As `zip` with one source; the materialized value is `combine(this part's, the other's)`."""
        return self._fan_in(ZipN(2), other, combine=combine)

    def zip_with(self, other: Any, fn: Callable[[Out, Any], U]) -> Ops[U, Mat]:
        """Combine each element with the next one of `other` by `fn`.

        Emits when: both have an element.             Backpressures when: downstream does.
        Completes when: either does.                  Cancels when: downstream cancels.
        Supervision: resume drops the pair.
        """
        return self._fan_in(ZipWith(fn, 2), other)

    def zip_latest(self, *others: Any) -> Ops[Any, Mat]:
        """Tuples of the latest elements, whenever an input has a new one, once all have had one.

        Emits when: an input has a new element.       Backpressures when: downstream does.
        Completes when: any input does.               Cancels when: downstream cancels.
        """
        return self._fan_in(ZipLatest(1 + len(others)), *others)

    def zip_latest_with(self, other: Any, fn: Callable[[Out, Any], U], eager_complete: bool = True) -> Ops[U, Mat]:
        """As `zip_latest` with one source, combined by `fn`.

        Emits when: an input has a new element.       Backpressures when: downstream does.
        Completes when: either does (eager_complete=False: both).    Cancels when: downstream cancels.
        """
        return self._fan_in(ZipLatest(2, fn, eager_complete), other)

    # ── other sinks ───────────────────────────────────────────────────────────────────────────────────────────────

    def also_to(self, *sinks: Any) -> Ops[Out, Mat]:
        """Give every element to `sinks` as well; the slowest sets the pace, and one that cancels ends the stream.

        Emits when: downstream and all sinks have demand.   Backpressures when: downstream or any sink does.
        Completes when: upstream completes.                 Cancels when: downstream or any sink cancels.
        """
        return self._fan_out(Broadcast(1 + len(sinks), eager_cancel=True), *sinks)

    def also_to_mat(self, sink: Any, combine: Callable[[Mat, Any], M2]) -> Ops[Out, M2]:
        """As `also_to` with one sink; the materialized value is `combine(this part's, the sink's)`."""
        return self._fan_out(Broadcast(2, eager_cancel=True), sink, combine=combine)

    def divert_to(self, sink: Any, when: Callable[[Out], Any]) -> Ops[Out, Mat]:
        """Send the elements for which `when` is true to `sink` instead of downstream.

        Emits when: the chosen output has demand.     Backpressures when: the chosen output does.
        Completes when: upstream completes.           Cancels when: downstream or the sink cancels.
        """
        return self._fan_out(_diversion(when), sink)

    def divert_to_mat(self, sink: Any, when: Callable[[Out], Any], combine: Callable[[Mat, Any], M2]) -> Ops[Out, M2]:
        """As `divert_to`; the materialized value is `combine(this part's, the sink's)`."""
        return self._fan_out(_diversion(when), sink, combine=combine)

    def wire_tap(self, sink: Any) -> Ops[Out, Mat]:
        """Give `sink` (or a function, called with each element) a copy of what it has time for; it never slows the stream.

        Emits when: upstream has an element.          Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels. What happens to the sink is its own matter.
        """
        return self._fan_out(WireTap(), _tap_sink(sink))

    def wire_tap_mat(self, sink: Any, combine: Callable[[Mat, Any], M2]) -> Ops[Out, M2]:
        """As `wire_tap`; the materialized value is `combine(this part's, the sink's)`."""
        return self._fan_out(WireTap(), sink, combine=combine)


def _diversion(when: Callable[[V], Any]) -> Partition:
    plain_function("divert_to", when)
    return Partition(2, lambda element: 1 if when(element) else 0, eager_cancel=True)


def _tap_sink(sink: Any) -> Any:
    if callable(sink) and not hasattr(sink, "module"):
        from streamactors.dsl.sink import Sink

        return Sink.foreach(sink)
    module_of("wire_tap", sink, (1, 0))
    return sink
