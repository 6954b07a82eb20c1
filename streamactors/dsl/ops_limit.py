"""Operators that pass a part of the stream: by number, by predicate, by time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.clock import Duration
from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.stages.filter import DropRepeated, DropWhile, TakeUntil, TakeWhile
from streamactors.stages.limit import Drop, Limit, LimitWeighted, Take
from streamactors.stages.timed import DropWithin, TakeWithin


class LimitOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def take(self, n: int) -> Ops[Out, Mat]:
        """Pass the first `n` elements, then complete.

        Emits when: an element arrives and `n` are not through yet.   Backpressures when: downstream does.
        Completes when: `n` elements have passed, or upstream completes.
        Cancels when: `n` elements have passed, or downstream cancels.
        """
        return self._via(Take(n))

    def take_while(self, predicate: Callable[[Out], Any], inclusive: bool = False) -> Ops[Out, Mat]:
        """Pass elements as long as `predicate` is true; with `inclusive`, the first one for which it is false as well.

        Emits when: the predicate is true.            Backpressures when: downstream does.
        Completes when: the predicate was false, or upstream completes.
        Cancels when: the predicate was false, or downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(TakeWhile(predicate, inclusive))

    def take_until(self, predicate: Callable[[Out], Any]) -> Ops[Out, Mat]:
        """Pass elements up to and including the first for which `predicate` is true, then complete.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: the predicate was true, or upstream completes.
        Cancels when: the predicate was true, or downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(TakeUntil(predicate))

    def take_within(self, span: Duration) -> Ops[Out, Mat]:
        """Pass what comes within `span` of the start, then complete.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: the time is over, or upstream completes.   Cancels when: the time is over, or downstream cancels.
        """
        return self._via(TakeWithin(span))

    def drop(self, n: int) -> Ops[Out, Mat]:
        """Drop the first `n` elements, pass the rest.

        Emits when: `n` elements have been dropped and another arrives.
        Backpressures when: `n` are dropped and downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(Drop(n))

    def drop_while(self, predicate: Callable[[Out], Any]) -> Ops[Out, Mat]:
        """Drop elements as long as `predicate` is true; pass everything from the first one for which it is false.

        Emits when: the predicate has been false once.   Backpressures when: it has been false and downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.
        """
        return self._via(DropWhile(predicate))

    def drop_within(self, span: Duration) -> Ops[Out, Mat]:
        """Drop what comes within `span` of the start, pass the rest.

        Emits when: upstream does, once the time is over.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        """
        return self._via(DropWithin(span))

    def drop_repeated(self, same: Callable[[Out, Out], Any] | None = None) -> Ops[Out, Mat]:
        """Drop elements equal to the last one emitted; `same(last, element)` may say what equal means.

        Emits when: an element differs from the last one emitted.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also forgets the last one.
        """
        return self._via(DropRepeated(same))

    def limit(self, n: int) -> Ops[Out, Mat]:
        """Pass at most `n` elements; one more fails the stream with StreamLimitReached.

        Emits when: upstream does, up to `n` elements.   Backpressures when: downstream does.
        Completes when: upstream completes within `n` elements.   Cancels when: downstream cancels.
        """
        return self._via(Limit(n))

    def limit_weighted(self, n: int, cost: Callable[[Out], int]) -> Ops[Out, Mat]:
        """Pass elements whose costs add up to at most `n`; one that exceeds it fails the stream with StreamLimitReached.

        Emits when: upstream does, up to a total cost of `n`.   Backpressures when: downstream does.
        Completes when: upstream completes within the limit.    Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also begins to count anew.
        """
        return self._via(LimitWeighted(n, cost))
