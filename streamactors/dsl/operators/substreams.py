"""Operators that turn elements into sources and flatten these, or cut a stream into substreams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.kinds import Flow, Source, SubFlow, part
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.substreams.flat_map import FlatMapConcat, FlatMapMerge
from streamactors.stages.substreams.flat_map_prefix import FlatMapPrefix
from streamactors.stages.substreams.group_by import GroupBy, WhenFull
from streamactors.stages.substreams.prefix_and_tail import PrefixAndTail
from streamactors.stages.substreams.split import SplitAfter, SplitWhen
from streamactors.stages.substreams.switch_map import SwitchMap


class SubstreamOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def flat_map_concat(self, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        return self._via(FlatMapConcat(fn))

    def flat_map_merge(self, breadth: int, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        return self._via(FlatMapMerge(breadth, fn))

    def flatten_concat(self) -> Ops[Any, Mat]:
        """Emit the elements of the sources that are the elements, one source after the other. As `flat_map_concat` of the identity."""
        return self._via_as("flatten_concat", FlatMapConcat(_itself))

    def flatten_merge(self, breadth: int) -> Ops[Any, Mat]:
        """Merge the sources that are the elements, at most `breadth` at a time. As `flat_map_merge` of the identity."""
        return self._via_as("flatten_merge", FlatMapMerge(breadth, _itself))

    def switch_map(self, fn: Callable[[Out], Source[U, Any]]) -> Ops[U, Mat]:
        return self._via(SwitchMap(fn))

    def prefix_and_tail(self, n: int) -> Ops[tuple[list[Out], Source[Out, Any]], Mat]:
        return self._via(PrefixAndTail(n, lambda rest: part(Source, rest)))

    def flat_map_prefix(self, n: int, fn: Callable[[list[Out]], Flow[Out, U, Any]]) -> Ops[U, Mat]:
        return self._via(FlatMapPrefix(n, fn))

    def group_by(
        self,
        fn: Callable[[Out], Any],
        max_substreams: int,
        *,
        when_full: WhenFull = "fail",
        allow_closed_substream_recreation: bool = False,
    ) -> SubFlow[Out, Mat]:
        cut = GroupBy(fn, max_substreams, when_full, allow_closed_substream_recreation)
        made: SubFlow[Out, Mat] = part(SubFlow, self, cut)
        return made

    def split_when(self, predicate: Callable[[Out], Any]) -> SubFlow[Out, Mat]:
        made: SubFlow[Out, Mat] = part(SubFlow, self, SplitWhen(predicate))
        return made

    def split_after(self, predicate: Callable[[Out], Any]) -> SubFlow[Out, Mat]:
        made: SubFlow[Out, Mat] = part(SubFlow, self, SplitAfter(predicate))
        return made


def _itself(source: Any) -> Any:
    return source
