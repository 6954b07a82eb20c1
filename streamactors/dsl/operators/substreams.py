"""Operators that turn elements into sources and flatten these, or cut a stream into substreams."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.kinds import Flow, Source, SubFlow, part
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U

if TYPE_CHECKING:
    from streamactors.stages.substreams.group_by import WhenFull


class SubstreamOps(Ops[Out, Mat]):
    """Operators that run sources, or a stream for each key, inside the stream."""

    __slots__ = ()

    def flat_map_concat(self, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        """Turn each element into a source and emit these one after the other.

        Emits when: the current source has an element.   Backpressures when: downstream does.
        Completes when: upstream and the last source complete.   Cancels when: downstream cancels.
        Supervision: resume drops an element for which `fn` raised; a source that fails fails the stream.

        Example:
            a 1---2|
            b xy--z|
            a.flat_map_concat(lambda x: b.map(lambda y: f'{x}{y}'))
        """
        from streamactors.stages.substreams.flat_map import FlatMapConcat

        return self._via(FlatMapConcat(fn))

    def flat_map_merge(self, breadth: int, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        """Turn each element into a source and merge these, at most `breadth` at a time.

        Emits when: one of the sources has an element.   Backpressures when: downstream does, or `breadth` sources run.
        Completes when: upstream and all sources complete.   Cancels when: downstream cancels.
        Fails when: one of the sources fails; the others are cancelled.

        Example:
            a 1----2|
            b xy------z|
            a.flat_map_merge(2, lambda x: b.map(lambda y: f'{x}{y}'))
        """
        from streamactors.stages.substreams.flat_map import FlatMapMerge

        return self._via(FlatMapMerge(breadth, fn))

    def flatten_concat(self) -> Ops[Any, Mat]:
        """Emit the elements of the sources that are the elements, one source after the other. As `flat_map_concat` of the identity.

        Emits when: the current source has an element.   Backpressures when: downstream does.
        Completes when: upstream and the last source complete.   Cancels when: downstream cancels.
        Supervision: resume drops an element for which `fn` raised; a source that fails fails the stream.

        Example:
            a -2---3|
            a.map(lambda x: Source.range(x)).flatten_concat()
        """
        from streamactors.stages.substreams.flat_map import FlatMapConcat

        return self._via_as("flatten_concat", FlatMapConcat(_itself))

    def flatten_merge(self, breadth: int) -> Ops[Any, Mat]:
        """Merge the sources that are the elements, at most `breadth` at a time. As `flat_map_merge` of the identity.

        Emits when: one of the sources has an element.   Backpressures when: downstream does, or `breadth` sources run.
        Completes when: upstream and all sources complete.   Cancels when: downstream cancels.
        Fails when: one of the sources fails; the others are cancelled.

        Example:
            a -2---3|
            a.map(lambda x: Source.range(x)).flatten_merge(2)
        """
        from streamactors.stages.substreams.flat_map import FlatMapMerge

        return self._via_as("flatten_merge", FlatMapMerge(breadth, _itself))

    def switch_map(self, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        """Turn each element into a source and emit the elements of the latest one; the source before it is cancelled.

        Emits when: the current source has an element.   Backpressures when: downstream does; upstream is always asked.
        Completes when: upstream and the current source complete.   Cancels when: downstream cancels.
        Fails when: upstream or the current source fails.
        Supervision: resume drops an element for which `fn` raised; the current source continues.
        Marks: elements of a cancelled source count as dropped on purpose.

        Example:
            a 1---2|
            b xy---z|
            a.switch_map(lambda x: b.map(lambda y: f'{x}{y}'))
        """
        from streamactors.stages.substreams.switch_map import SwitchMap

        return self._via(SwitchMap(fn))

    def prefix_and_tail(self, n: int) -> Ops[tuple[list[Out], Source[Out, Any]], Mat]:
        """Emit one pair: the list of the first `n` elements, and a source of the rest. The list is shorter if the stream is.

        The source can be run once, in `flat_map_concat` or in a run of its own, and must be started within 5 s.
        Emits when: `n` elements have come, or upstream has completed.
        Backpressures when: downstream does; after the pair, when the source does or is not started.
        Completes when: it has emitted.
        Cancels when: downstream cancels before the pair; after it, when the source's run cancels or 5 s pass without its start.
        Fails when: upstream fails before the pair; after it, the source fails.

        Example:
            a -1-2-3|
            a.prefix_and_tail(1).flat_map_concat(lambda pair: pair[1])
        """
        from streamactors.stages.substreams.prefix_and_tail import PrefixAndTail

        return self._via(PrefixAndTail(n, lambda rest: part(Source, rest)))

    def flat_map_prefix(self, n: int, fn: Callable[[list[Out]], Flow[Out, U, Any]]) -> Ops[U, Mat]:
        """Run the stream after its first `n` elements through the flow that `fn(those elements)` returns.

        The list is shorter when upstream completes early. Materializes nothing of the flow.
        Emits when: the flow does.                    Backpressures when: the flow does.
        Completes when: the flow does.                Cancels when: the flow or downstream cancels.
        Fails when: `fn` raises, or the flow fails.

        Example:
            a -2-3-4|
            a.flat_map_prefix(1, lambda first: Flow.map(lambda x: x * first[0]))
        """
        from streamactors.stages.substreams.flat_map_prefix import FlatMapPrefix

        return self._via(FlatMapPrefix(n, fn))

    def group_by(
        self,
        fn: Callable[[Out], Any],
        max_substreams: int,
        *,
        when_full: WhenFull = "fail",
        allow_closed_substream_recreation: bool = False,
    ) -> SubFlow[Out, Mat]:
        """Cut the stream into one substream per key.

        `when_full` says what happens to an element whose key would be substream number `max_substreams` + 1: "fail" fails the stream with
        TooManySubstreams, "backpressure" waits until a substream has ended, "evict_idle" completes the substream that was silent longest.
        A substream that has cancelled is closed: later elements of its key are dropped, and the key still counts; with
        `allow_closed_substream_recreation` it opens again, and gets the elements after the one at which the closed one's flow has ended.
        Results of one substream leave in their order; between substreams the order is free.
        Emits when: a substream has a result.
        Backpressures when: a substream with an element for it has no demand, or 32,768 elements wait for substreams.
        Completes when: upstream and all substreams complete.   Cancels when: downstream cancels.
        Fails when: a substream fails; there are too many; the substreams that are read have waited for elements for 5 s, while the next
        element waits for one that is not read or not open.
        Supervision: resume drops an element for which `fn` raised, or that needs a substream too many.
        Marks: when all that stems from elements before them has left the substreams, if the substreams' flow is a chain of stages that pass
        marks; else they do not pass.

        Example:
            a -1---2---3|
            a.group_by(lambda x: x % 2, 2).scan(0, lambda n, x: n + x).merge_substreams()
        """
        from streamactors.stages.substreams.group_by import GroupBy

        cut = GroupBy(fn, max_substreams, when_full, allow_closed_substream_recreation)
        made: SubFlow[Out, Mat] = part(SubFlow, self, cut)
        return made

    def split_when(self, predicate: Callable[[Out], Any]) -> SubFlow[Out, Mat]:
        """Begin a new substream with each element for which `predicate` is true.

        Merged results of substreams that compute at once leave in the substreams' order.
        Emits when: a substream has a result.
        Backpressures when: the current substream has no demand or is not read yet, or 1,024 substreams run.
        Completes when: upstream and all substreams complete.   Cancels when: downstream cancels.
        Fails when: a substream fails.                Supervision: resume drops an element for which `predicate` raised.
        Marks: when all that stems from elements before them has left the substreams, if the substreams' flow is a chain of stages that pass
        marks; else they do not pass.

        Example:
            a 123-12|
            a.split_when(lambda x: x == 1).reduce(lambda x, y: x + y).concat_substreams()
        """
        from streamactors.stages.substreams.split import SplitWhen

        made: SubFlow[Out, Mat] = part(SubFlow, self, SplitWhen(predicate))
        return made

    def split_after(self, predicate: Callable[[Out], Any]) -> SubFlow[Out, Mat]:
        """As `split_when`; each element for which `predicate` is true ends the current substream.

        Example:
            a 123-12|
            a.split_after(lambda x: x == 3).reduce(lambda x, y: x + y).concat_substreams()
        """
        from streamactors.stages.substreams.split import SplitAfter

        made: SubFlow[Out, Mat] = part(SubFlow, self, SplitAfter(predicate))
        return made


def _itself(source: Any) -> Any:
    return source
