"""Operators with further sources or sinks: merge, zip, concat and others; also_to, divert_to, wire_tap."""

# Over 400 lines: each operator once, with its contract and its example.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.part import joined, module_of, not_used
from streamactors.dsl.typevars import M2, M3, Mat, Out, T, U, V
from streamactors.engine.blueprint.modules import StageModule, Wired
from streamactors.stages.checks import plain_function

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Flow, Sink, Source


class JunctionOps(Ops[Out, Mat]):
    """Operators that join and split streams. `mat` combines the materialized values of two parts; without it this part's is kept."""

    __slots__ = ()

    # ── other sources ─────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def merge(self, *others: Source[U, Any], eager_complete: bool = False) -> Ops[Out | U, Mat]: ...

    @overload
    def merge(
        self, other: Source[U, M2], /, *, eager_complete: bool = False, mat: Callable[[Mat, M2], M3]
    ) -> Ops[Out | U, M3]: ...

    def merge(
        self, *others: Source[U, Any], eager_complete: bool = False, mat: Callable[[Mat, Any], Any] | None = None
    ) -> Ops[Any, Any]:
        """Merge with other sources; elements leave in the order in which they come, and the sources take turns.

        With one other, `mat(this part's, the other's)` gives the materialized value, for example Keep.both.

        Emits when: an input has an element.          Backpressures when: downstream does.
        Completes when: all inputs complete (eager_complete: any of them).   Cancels when: downstream cancels.

        Example:
            a -1---2|
            b --x-----y|
            a.merge(b)
        """
        from streamactors.stages.junctions.fan_in import Merge

        return self._fan_in(Merge(1 + len(others), eager_complete), *others, mat=mat)

    def merge_preferred(
        self, other: Source[U, Any], prefer_other: bool = False, eager_complete: bool = False
    ) -> Ops[Out | U, Mat]:
        """Merge with another source; while the preferred one (this, or the other) has elements, the other waits.

        Emits when: an input has an element; the preferred one first.   Backpressures when: downstream does.
        Completes when: all inputs complete (eager_complete: any).      Cancels when: downstream cancels.

        Example:
            a -1---2|
            b --x-----y|
            a.merge_preferred(b)
        """
        from streamactors.stages.junctions.fan_in import MergePreferred

        return self._fan_in(MergePreferred(1, eager_complete), other, at=1 if prefer_other else 0)

    def merge_sorted(self, *others: Source[U, Any], key: Callable[[Any], Any] | None = None) -> Ops[Out | U, Mat]:
        """Merge with other sources into one sorted stream; every input must be sorted by the same `key`.

        Emits when: every open input has an element.   Backpressures when: downstream does.
        Completes when: all inputs complete.           Cancels when: downstream cancels.

        Example:
            a -1---5|
            b --2-6|
            a.merge_sorted(b)
        """
        from streamactors.stages.junctions.ordering import MergeSorted

        return self._fan_in(MergeSorted(1 + len(others), key), *others)

    def merge_sequence(self, *others: Source[U, Any], number: Callable[[Any], int]) -> Ops[Out | U, Mat]:
        """Merge with other sources in the order of `number(element)`, which is 0, 1, 2, … over all inputs, each once.

        Emits when: an input has the element with the next number.   Backpressures when: downstream does.
        Completes when: all inputs complete.                         Cancels when: downstream cancels.
        Fails when: a number comes twice, or every open input has an element and none has the next number.

        Example:
            a 0---1|
            b -2|
            a.merge_sequence(b, number=lambda x: x)
        """
        from streamactors.stages.junctions.ordering import MergeSequence

        return self._fan_in(MergeSequence(1 + len(others), number), *others)

    def merge_prioritized(
        self, *others: Source[U, Any], priorities: Sequence[int], eager_complete: bool = False
    ) -> Ops[Out | U, Mat]:
        """Merge with other sources; while several have elements, each is taken in proportion to its priority (this stream's first).

        Emits when: an input has an element.   Backpressures when: downstream does.
        Completes when: all inputs complete (eager_complete: any of them).   Cancels when: downstream cancels.

        Example:
            a -1---2|
            b --x|
            a.merge_prioritized(b, priorities=[3, 1])
        """
        from streamactors.stages.junctions.ordering import MergePrioritized

        return self._fan_in(MergePrioritized(priorities, eager_complete), *others)

    def merge_latest(self, *others: Source[U, Any], eager_complete: bool = False) -> Ops[list[Out | U], Mat]:
        """Lists of the latest elements, whenever an input has a new one, once all have had one.

        Emits when: an input has an element, and all have had one.   Backpressures when: downstream does.
        Completes when: all inputs complete (eager_complete: any).   Cancels when: downstream cancels.

        Example:
            a -1----2|
            b --x|
            a.merge_latest(b)
        """
        from streamactors.stages.junctions.zipping import ZipLatest

        return self._fan_in(ZipLatest(1 + len(others), _as_list, eager_complete), *others)

    @overload
    def concat(self, *others: Source[U, Any]) -> Ops[Out | U, Mat]: ...

    @overload
    def concat(self, other: Source[U, M2], /, *, mat: Callable[[Mat, M2], M3]) -> Ops[Out | U, M3]: ...

    def concat(self, *others: Source[U, Any], mat: Callable[[Mat, Any], Any] | None = None) -> Ops[Any, Any]:
        """Emit this stream, then each other source in turn. One element of each may be fetched ahead.

        With one other, `mat(this part's, the other's)` gives the materialized value, for example Keep.both.

        Emits when: the current input has an element.   Backpressures when: downstream does.
        Completes when: all inputs complete.            Cancels when: downstream cancels.

        Example:
            a -1-2|
            b -x-y|
            a.concat(b)
        """
        from streamactors.stages.junctions.fan_in import Concat

        return self._fan_in(Concat(1 + len(others)), *others, mat=mat)

    def concat_lazy(self, *others: Source[U, Any]) -> Ops[Out | U, Mat]:
        """As `concat`, without fetching ahead.

        Example:
            a -1-2|
            b -x-y|
            a.concat_lazy(b)
        """
        from streamactors.stages.junctions.fan_in import Concat

        return self._fan_in(Concat(1 + len(others), detached=False), *others)

    def prepend(self, other: Source[U, Any]) -> Ops[Out | U, Mat]:
        """Emit all of `other` first, then this stream, of which one element may be fetched ahead.

        Emits when: the current input has an element.   Backpressures when: downstream does.
        Completes when: all inputs complete.            Cancels when: downstream cancels.

        Example:
            a -1-2|
            b -x-y|
            a.prepend(b)
        """
        from streamactors.stages.junctions.fan_in import Concat

        return self._fan_in(Concat(2), other, at=1)

    def prepend_lazy(self, other: Source[U, Any]) -> Ops[Out | U, Mat]:
        """As `prepend`, without fetching ahead.

        Example:
            a -1-2|
            b -x-y|
            a.prepend_lazy(b)
        """
        from streamactors.stages.junctions.fan_in import Concat

        return self._fan_in(Concat(2, detached=False), other, at=1)

    def or_else(self, other: Source[U, Any]) -> Ops[Out | U, Mat]:
        """Emit this stream; if it completes without an element, `other` instead.

        Emits when: the chosen input has an element.    Backpressures when: downstream does.
        Completes when: the chosen input completes.     Cancels when: downstream cancels.

        Example:
            a ---|
            b -x-y|
            a.or_else(b)
        """
        from streamactors.stages.junctions.fan_in import OrElse

        return self._fan_in(OrElse(), other)

    def interleave(self, *others: Source[U, Any], segment: int = 1, eager_close: bool = False) -> Ops[Out | U, Mat]:
        """Take `segment` elements of each source in turn, beginning with this stream; a source that has ended loses its turn.

        Emits when: the input whose turn it is has an element.   Backpressures when: downstream does.
        Completes when: all inputs complete (eager_close: any).  Cancels when: downstream cancels.

        Example:
            a 12|
            b xyz|
            a.interleave(b)
        """
        from streamactors.stages.junctions.fan_in import Interleave

        return self._fan_in(Interleave(1 + len(others), segment, eager_close), *others)

    @overload
    def zip(self, other: Source[U, Any], /) -> Ops[tuple[Out, U], Mat]: ...

    @overload
    def zip(self, second: Source[U, Any], third: Source[V, Any], /) -> Ops[tuple[Out, U, V], Mat]: ...

    @overload
    def zip(self, *others: Source[Any, Any]) -> Ops[tuple[Any, ...], Mat]: ...

    @overload
    def zip(self, other: Source[U, M2], /, *, mat: Callable[[Mat, M2], M3]) -> Ops[tuple[Out, U], M3]: ...

    def zip(self, *others: Source[Any, Any], mat: Callable[[Mat, Any], Any] | None = None) -> Ops[Any, Any]:
        """Pair each element with the next one of each other source, as tuples.

        With one other, `mat(this part's, the other's)` gives the materialized value, for example Keep.both.

        Emits when: every input has an element.         Backpressures when: downstream does.
        Completes when: any input completes, after the tuple its last element belongs to.   Cancels when: downstream cancels.

        Example:
            a -1-----2|
            b ---x---y|
            a.zip(b)
        """
        from streamactors.stages.junctions.zipping import ZipN

        return self._fan_in(ZipN(1 + len(others)), *others, mat=mat)

    def zip_with(self, other: Source[T, Any], fn: Callable[[Out, T], U]) -> Ops[U, Mat]:
        """Combine each element with the next one of `other` by `fn`.

        Emits when: every input has an element.         Backpressures when: downstream does.
        Completes when: any input completes, after the result its last element belongs to.   Cancels when: downstream cancels.
        Supervision: resume and restart drop the elements for which the function raised.

        Example:
            a -1---2|
            b --3---4|
            a.zip_with(b, lambda x, y: x * y)
        """
        from streamactors.stages.junctions.zipping import ZipWith

        return self._fan_in(ZipWith(fn, 2), other)

    def zip_all(
        self, other: Source[U, Any], default: T | None = None, other_default: V | None = None
    ) -> Ops[tuple[Out | T | None, U | V | None], Mat]:
        """Pair the elements until both streams have ended; a stream that has ended gives its default.

        Emits when: every open input has an element.   Backpressures when: downstream does.
        Completes when: both inputs complete.          Cancels when: downstream cancels.

        Example:
            a -1----2|
            b --3|
            a.zip_all(b, 0, 0)
        """
        from streamactors.stages.junctions.ordering import ZipAll

        return self._fan_in(ZipAll(default, other_default), other)

    @overload
    def zip_latest(self, other: Source[U, Any], /) -> Ops[tuple[Out, U], Mat]: ...

    @overload
    def zip_latest(self, second: Source[U, Any], third: Source[V, Any], /) -> Ops[tuple[Out, U, V], Mat]: ...

    @overload
    def zip_latest(self, *others: Source[Any, Any]) -> Ops[tuple[Any, ...], Mat]: ...

    def zip_latest(self, *others: Any) -> Ops[Any, Mat]:
        """Tuples of the latest elements, whenever an input has a new one, once all have had one.

        Emits when: all inputs have had an element and one has a new one.   Backpressures when: downstream does.
        Completes when: any input completes (eager_complete=False: all), but not before its only element was part of a result.
        Cancels when: downstream cancels.

        Example:
            a -1-----2|
            b ---x|
            a.zip_latest(b)
        """
        from streamactors.stages.junctions.zipping import ZipLatest

        return self._fan_in(ZipLatest(1 + len(others)), *others)

    def zip_latest_with(
        self, other: Source[T, Any], fn: Callable[[Out, T], U], eager_complete: bool = True
    ) -> Ops[U, Mat]:
        """As `zip_latest` with one source, combined by `fn`.

        Example:
            a -1-----2|
            b --3|
            a.zip_latest_with(b, lambda x, y: x + y, eager_complete=False)
        """
        from streamactors.stages.junctions.zipping import ZipLatest

        return self._fan_in(ZipLatest(2, plain_function("zip_latest_with", fn), eager_complete), other)

    def optional_via(self, flow: Flow[Any, U, Any]) -> Ops[U | None, Mat]:
        """Run the elements through `flow`, except those that are None, which pass beside it.

        The order between the two ways is not kept.
        Emits when: the flow does, or a None comes.   Backpressures when: downstream or the flow does.
        Completes when: upstream and the flow complete.   Cancels when: downstream cancels.

        Example:
            a -1-2|
            a.collect(lambda x: x, when=int).optional_via(Flow.map(lambda x: x * 10))
        """
        from streamactors.stages.junctions.fan_in import Merge
        from streamactors.stages.junctions.fan_out import Partition

        ways = Wired(
            (
                StageModule(Partition(2, lambda element: 0 if element is None else 1)),
                module_of("optional_via", flow, (1, 1)),
                StageModule(Merge(2)),
            ),
            (((0, 0), (2, 0)), ((0, 1), (1, 0)), ((1, 0), (2, 1))),
            ((0, 0),),
            ((2, 0),),
            not_used,
        )
        return self._with(joined(self.module, ways))

    # ── other sinks ───────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def also_to(self, *sinks: Sink[Out, Any]) -> Ops[Out, Mat]: ...

    @overload
    def also_to(self, sink: Sink[Out, M2], /, *, mat: Callable[[Mat, M2], M3]) -> Ops[Out, M3]: ...

    def also_to(self, *sinks: Sink[Out, Any], mat: Callable[[Mat, Any], Any] | None = None) -> Ops[Any, Any]:
        """Send every element to `sinks` as well. The slowest sink sets the pace; a sink that cancels or fails ends the stream.

        With one sink, `mat(this part's, the sink's)` gives the materialized value, for example Keep.both.

        Downstream gets an element when the sinks have taken it, and no element at which a sink that computes at once has failed.
        Emits when: all sinks have taken an element and downstream has demand.   Backpressures when: downstream or any sink does.
        Completes when: upstream completes and all sinks have ended.   Cancels when: downstream or any sink cancels.
        Fails when: upstream or any sink fails.

        Example:
            a -1-2-3|
            a.also_to(Sink.foreach(seen.append))
        """
        from streamactors.stages.junctions.sides_first import AlsoTo

        return self._fan_out(AlsoTo(len(sinks)), *sinks, mat=mat)

    @overload
    def divert_to(self, sink: Sink[Any, Any], when: Callable[[Out], Any]) -> Ops[Out, Mat]: ...

    @overload
    def divert_to(
        self, sink: Sink[Any, M2], when: Callable[[Out], Any], *, mat: Callable[[Mat, M2], M3]
    ) -> Ops[Out, M3]: ...

    def divert_to(
        self, sink: Sink[Any, Any], when: Callable[[Out], Any], *, mat: Callable[[Mat, Any], Any] | None = None
    ) -> Ops[Any, Any]:
        """Send the elements for which `when` is true to `sink` instead of downstream.

        `mat(this part's, the sink's)` gives the materialized value, for example Keep.both; without it this part's is kept.

        Downstream gets an element when the sink has taken the diverted elements before it.
        Emits when: the chosen output has demand.     Backpressures when: the chosen output does.
        Completes when: upstream completes and the sink has ended.   Cancels when: downstream or the sink cancels.
        Fails when: upstream or the sink fails.

        Example:
            a -1-2-3|
            a.divert_to(Sink.foreach(seen.append), when=lambda x: x == 2)
        """
        from streamactors.stages.junctions.sides_first import DivertTo

        return self._fan_out(DivertTo(when), sink, mat=mat)

    @overload
    def divert_if(self, predicate: Callable[[Out], Any], sink: Sink[Out, Any]) -> Ops[Out, Mat]: ...

    @overload
    def divert_if(
        self, predicate: Callable[[Out], Any], sink: Sink[Out, M2], *, mat: Callable[[Mat, M2], M3]
    ) -> Ops[Out, M3]: ...

    def divert_if(
        self, predicate: Callable[[Out], Any], sink: Sink[Any, Any], *, mat: Callable[[Mat, Any], Any] | None = None
    ) -> Ops[Any, Any]:
        """Send the elements for which `predicate` is true to `sink` instead of downstream. As `divert_to`, with the predicate first.

        Example:
            a -1-2-3|
            a.divert_if(lambda x: x == 2, Sink.foreach(seen.append))
        """
        from streamactors.stages.junctions.sides_first import DivertTo

        return self._fan_out(DivertTo(predicate), sink, mat=mat)

    @overload
    def wire_tap(self, sink: Sink[Out, Any] | Callable[[Out], object]) -> Ops[Out, Mat]: ...

    @overload
    def wire_tap(self, sink: Sink[Out, M2], *, mat: Callable[[Mat, M2], M3]) -> Ops[Out, M3]: ...

    def wire_tap(
        self, sink: Sink[Out, Any] | Callable[[Out], object], *, mat: Callable[[Mat, Any], Any] | None = None
    ) -> Ops[Any, Any]:
        """Send elements to `sink` (or to a function) as far as it has demand; it never slows the stream.

        `mat(this part's, the sink's)` gives the materialized value, for example Keep.both; without it this part's is kept.

        Which elements are dropped depends on time and on where chunks are cut; what the stream gets and how it ends do not.

        Emits when: upstream has an element and downstream demand; elements without demand of the side output are dropped there.
        Backpressures when: downstream does.   Completes when: upstream completes.   Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.wire_tap(seen.append)
        """
        from streamactors.stages.junctions.fan_out import WireTap

        return self._fan_out(WireTap(), _tap_sink(sink), mat=mat)


def _as_list(*elements: Any) -> list[Any]:
    return list(elements)


def _tap_sink(sink: Any) -> Any:
    from streamactors.stages.sinks.foreach import Foreach

    if callable(sink) and not hasattr(sink, "module"):
        return Foreach(sink)
    module_of("wire_tap", sink, (1, 0))
    return sink
