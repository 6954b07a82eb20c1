"""Operators that pass a part of the stream: by number, by predicate, by time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out
from streamactors.durations import Duration


class LimitOps(Ops[Out, Mat]):
    """Operators that pass a part of the stream: by number, by predicate, by time."""

    __slots__ = ()

    def take(self, n: int) -> Ops[Out, Mat]:
        """Pass the first `n` elements, then complete; with 0 complete at once.

        Emits when: an element arrives and fewer than `n` have passed.   Backpressures when: downstream does.
        Completes when: `n` elements have passed, or upstream completes.
        Cancels when: `n` elements have passed, or downstream cancels.
        Marks: the mark right after the last element taken passes.

        Example:
            a -1-2-3|
            a.take(2)
        """
        from streamactors.stages.limit.counting import Take

        return self._via(Take(n))

    def take_while(self, predicate: Callable[[Out], Any], inclusive: bool = False) -> Ops[Out, Mat]:
        """Pass elements as long as `predicate` is true; with `inclusive`, the first one for which it is false as well.

        Emits when: the predicate is true.            Backpressures when: downstream does.
        Completes when: the predicate was false, or upstream completes.
        Cancels when: the predicate was false, or downstream cancels.
        Supervision: resume and restart drop the element.
        Marks: none passes after the element for which the predicate was false, unless that element was passed on.

        Example:
            a -1-2-3-1|
            a.take_while(lambda x: x < 3)
        """
        from streamactors.stages.limit.predicates import TakeWhile

        return self._via(TakeWhile(predicate, inclusive))

    def take_until(self, predicate: Callable[[Out], Any]) -> Ops[Out, Mat]:
        """Pass elements up to and including the first for which `predicate` is true, then complete.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: the predicate was true, or upstream completes.
        Cancels when: the predicate was true, or downstream cancels.
        Supervision: resume and restart drop the element.

        Example:
            a -1-2-3|
            a.take_until(lambda x: x == 2)
        """
        from streamactors.stages.limit.predicates import TakeUntil

        return self._via(TakeUntil(predicate))

    def take_within(self, span: Duration) -> Ops[Out, Mat]:
        """Pass the elements that come within `span` (seconds, a timedelta or a string) of the start, then complete.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: the time is over, or upstream completes.   Cancels when: the time is over, or downstream cancels.

        Example:
            a -1-2-3|
            a.take_within('40ms')
        """
        from streamactors.stages.limit.within import TakeWithin

        return self._via(TakeWithin(span))

    def drop(self, n: int) -> Ops[Out, Mat]:
        """Drop the first `n` elements, pass the rest; with 0 pass all.

        Emits when: `n` elements have been dropped and another arrives.
        Backpressures when: `n` are dropped and downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.drop(1)
        """
        from streamactors.stages.limit.counting import Drop

        return self._via(Drop(n))

    def drop_while(self, predicate: Callable[[Out], Any]) -> Ops[Out, Mat]:
        """Drop elements as long as `predicate` is true; pass everything from the first one for which it is false.

        Emits when: the predicate has been false once.   Backpressures when: it has been false and downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element.

        Example:
            a -1-2-3-1|
            a.drop_while(lambda x: x < 3)
        """
        from streamactors.stages.limit.predicates import DropWhile

        return self._via(DropWhile(predicate))

    def drop_within(self, span: Duration) -> Ops[Out, Mat]:
        """Drop the elements that come within `span` (seconds, a timedelta or a string) of the start, pass the rest.

        Emits when: upstream does, once the time is over.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2-3|
            a.drop_within('40ms')
        """
        from streamactors.stages.limit.within import DropWithin

        return self._via(DropWithin(span))

    def drop_repeated(self, same: Callable[[Out, Out], Any] | None = None) -> Ops[Out, Mat]:
        """Drop elements equal to the last one emitted; `same(last, element)` may say what equal means.

        Emits when: an element differs from the last one emitted.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also forgets the last one.

        Example:
            a -1-1-2-1|
            a.drop_repeated()
        """
        from streamactors.stages.limit.predicates import DropRepeated

        return self._via(DropRepeated(same))

    def distinct(self, capacity: int = 100_000, key: Callable[[Out], Any] | None = None) -> Ops[Out, Mat]:
        """Drop elements whose key is among the `capacity` keys seen last; the key is the element, or `key(element)`.

        A key counts as seen again with each element, so a key that keeps coming is never forgotten.
        Emits when: the key is not known.             Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Fails when: `key` raises, or a key cannot be hashed.   Supervision: resume drops the element, restart also forgets the keys.

        Example:
            a -1-1-2-1|
            a.distinct()
        """
        from streamactors.stages.limit.distinct import Distinct

        return self._via(Distinct(capacity, key))

    def limit(self, n: int) -> Ops[Out, Mat]:
        """Pass at most `n` elements; one more fails the stream with StreamLimitReached.

        Emits when: upstream does, up to `n` elements.   Backpressures when: downstream does.
        Completes when: upstream completes within `n` elements.   Cancels when: downstream cancels.
        Fails when: element n + 1 arrives, with StreamLimitReached.

        Example:
            a -1-2-3|
            a.limit(2)
        """
        from streamactors.stages.limit.counting import Limit

        return self._via(Limit(n))

    def limit_weighted(self, n: int, cost: Callable[[Out], int]) -> Ops[Out, Mat]:
        """Pass elements whose costs add up to at most `n`; one that exceeds it fails the stream with StreamLimitReached.

        Emits when: upstream does, up to a total cost of `n`.   Backpressures when: downstream does.
        Completes when: upstream completes within the limit.    Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also sets the count to 0.
        Fails when: the total cost exceeds n, with StreamLimitReached.

        Example:
            a -1-2-3|
            a.limit_weighted(3, lambda x: x)
        """
        from streamactors.stages.limit.counting import LimitWeighted

        return self._via(LimitWeighted(n, cost))
