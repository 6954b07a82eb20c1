"""Operators that decouple the speeds of upstream and downstream."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.durations import Duration
from streamactors.stages.defaults import BACKPRESSURE, NOT_GIVEN


class RateOps(Ops[Out, Mat]):
    """Operators between streams of different speed: buffers, conflation, throttling."""

    __slots__ = ()

    def buffer(self, n: int, strategy: str = BACKPRESSURE) -> Ops[Out, Mat]:
        """Keep up to `n` elements for downstream. The strategy decides what happens when `n` are kept and upstream has another:

        "backpressure": upstream waits. "drop_head": the oldest element kept is dropped. "drop_tail": the youngest element kept is
        dropped. "drop_buffer": all elements kept are dropped. "drop_new": the new element is dropped. "fail": the stream fails
        with BufferOverflow.
        Emits when: downstream asks and an element is kept or comes.
        Backpressures when: `n` are kept ("backpressure"), else never.
        Completes when: upstream completes and every element kept has been emitted.   Cancels when: downstream cancels.
        Fails when: upstream fails, at once: the elements kept are dropped.
        Marks: in the queue. The strategies that drop remember: the dropped elements depend on timing.

        Example:
            a -1-2-3|
            a.buffer(2)
        """
        from streamactors.stages.rate.buffer import Buffer

        return self._via(Buffer(n, strategy))

    def detach(self) -> Ops[Out, Mat]:
        """Let upstream be one element ahead of downstream. Cycles need it, because it asks for an element before downstream does.

        Emits when: downstream asks and an element is kept or comes.   Backpressures when: an element is kept.
        Completes when: upstream completes and the element has been emitted.   Cancels when: downstream cancels.
        Marks: in the queue.

        Example:
            a 1-2-3|
            a.detach().throttle(1, '50ms', burst=1)
        """
        from streamactors.stages.rate.buffer import Detach

        return self._via(Detach())

    def conflate(self, aggregate: Callable[[Out, Out], U]) -> Ops[Out | U, Mat]:
        """Combine elements while downstream has no demand, any number of them: `aggregate(result, element)`.

        Emits when: downstream asks and there is an element.   Backpressures when: never, except while the function runs.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        Marks: after the result that has the elements before them.

        Example:
            a 1-2-3-4|
            a.conflate(lambda x, y: x + y).max_chunk(1).throttle(1, '50ms', burst=1).max_chunk(1)
        """
        from streamactors.stages.rate.conflate import Conflate

        return self._via(Conflate(aggregate))

    def conflate_with_seed(self, seed: Callable[[Out], U], aggregate: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """As `conflate`, with results of another type: `seed(element)` begins a result, `aggregate(result, element)` adds to it.

        Emits when: downstream asks and there is a result.   Backpressures when: never, except while a function runs.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        Marks: after the result that has the elements before them.

        Example:
            a 1-2-3-4|
            a.conflate_with_seed(lambda x: [x], lambda xs, x: [*xs, x]).max_chunk(1).throttle(1, '50ms', burst=1).max_chunk(1)
        """
        from streamactors.stages.rate.conflate import ConflateWithSeed

        return self._via(ConflateWithSeed(seed, aggregate))

    def batch(self, max_elements: int, seed: Callable[[Out], U], aggregate: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """Combine up to `max_elements` elements while downstream has no demand: `seed(element)`, then `aggregate(result, element)`.

        Emits when: downstream asks and there is a result.
        Backpressures when: downstream does and the result has `max_elements`.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        Marks: after the result that has the elements before them.

        Example:
            a 1234|
            a.batch(2, lambda x: [x], lambda xs, x: [*xs, x]).throttle(1, '50ms', burst=1)
        """
        from streamactors.stages.rate.conflate import Batch

        return self._via(Batch(max_elements, seed, aggregate))

    def batch_weighted(
        self,
        max_weight: int,
        cost: Callable[[Out], int],
        seed: Callable[[Out], U],
        aggregate: Callable[[U, Out], U],
    ) -> Ops[U, Mat]:
        """As `batch`, with a limit on the sum of the elements' costs: `max_weight`. A single element may cost more.

        Emits when: downstream asks and there is a result.
        Backpressures when: downstream does and the next element is too heavy.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        Marks: after the result that has the elements before them.

        Example:
            a 1112|
            a.batch_weighted(3, lambda x: x, lambda x: [x], lambda xs, x: [*xs, x]).throttle(1, '50ms', burst=1)
        """
        from streamactors.stages.rate.conflate import BatchWeighted

        return self._via(BatchWeighted(max_weight, cost, seed, aggregate))

    def expand(self, fn: Callable[[Out], Iterable[U]]) -> Ops[U, Mat]:
        """Turn each element into an iterator; emit its first result, and further results while upstream is silent and downstream
        asks.

        Emits when: downstream asks and the iterator of the last element has a result.   Backpressures when: downstream does.
        Completes when: upstream completes, with one result of each element emitted.     Cancels when: downstream cancels.
        Supervision: resume and restart drop the element, or the rest of its iterator.
        Marks: when the next element has come, or the iterator has ended.

        Example:
            a -1-2-3|
            b 5-----7|
            a.zip(b.expand(itertools.count))
        """
        from streamactors.stages.rate.extrapolating import Expand

        return self._via(Expand(fn))

    def extrapolate(self, fn: Callable[[Out], Iterable[U]], initial: U = NOT_GIVEN) -> Ops[Out | U, Mat]:
        """Emit each element; while upstream is silent and downstream asks, emit the results of `fn(last element)`.

        `initial` is used as an element before the first.
        Emits when: downstream asks, and there is an element or a result of `fn`.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element, or the rest of its results.
        Marks: when the next element has come, or the results of `fn` have ended.

        Example:
            a -1-2-3|
            b x----y|
            a.zip(b.extrapolate(itertools.repeat))
        """
        from streamactors.stages.rate.extrapolating import Extrapolate

        return self._via(Extrapolate(fn, initial))

    def throttle(
        self,
        n: int,
        per: Duration = "1s",
        burst: int | None = None,
        cost: Callable[[Out], float] | str | None = None,
        mode: str = "shaping",
    ) -> Ops[Out, Mat]:
        """Pass `n` elements, or elements of a total cost of `n`, per `per`, after a burst of at most `burst`.

        A token bucket that begins full. `burst` None: the tokens of 100 ms, at least 1; 0: the first element waits, too.
        `cost(element)` returns the tokens that an element takes. Mode "shaping" delays elements that come too early,
        "enforcing" fails with RateExceeded.
        Emits when: upstream does and there are tokens.   Backpressures when: downstream does, or tokens are missing (shaping).
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop an element for which `cost` raised.
        Fails when: an element comes and tokens are missing (enforcing), with RateExceeded.

        Example:
            a 123|
            a.throttle(1, '20ms', burst=1)
        """
        from streamactors.stages.rate.throttle import Throttle

        if isinstance(cost, str):  # throttle(n, per, burst, mode): no element costs more than another
            mode = cost
            cost = None
        return self._via(Throttle(n, per, burst, cost, mode))
