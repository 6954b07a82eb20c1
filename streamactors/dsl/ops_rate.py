"""Operators that decouple the speeds of upstream and downstream."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamactors.clock import Duration
from streamactors.dsl.ops import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.stages.buffer import BACKPRESSURE, Buffer, Detach
from streamactors.stages.emitting import NOT_GIVEN
from streamactors.stages.extrapolating import Expand, Extrapolate
from streamactors.stages.rate import Batch, BatchWeighted, Conflate, ConflateWithSeed
from streamactors.stages.throttle import Throttle


class RateOps(Ops[Out, Mat]):
    """See the module."""

    __slots__ = ()

    def buffer(self, n: int, strategy: str = BACKPRESSURE) -> Ops[Out, Mat]:
        """Keep up to `n` elements for downstream. When `n` are kept and another comes, the strategy says what happens:

        "backpressure": it does not come, upstream waits. "drop_head": the oldest kept is dropped. "drop_tail": the youngest kept
        is. "drop_buffer": all that are kept are. "drop_new": the new one is. "fail": the stream fails with BufferOverflow.

        Emits when: downstream asks and an element is kept or comes.
        Backpressures when: `n` are kept ("backpressure"), else never.
        Completes when: upstream completes and all that is kept has been emitted.   Cancels when: downstream cancels.
        A failure of upstream overtakes what is kept.
        """
        return self._via(Buffer(n, strategy))

    def detach(self) -> Ops[Out, Mat]:
        """Let upstream be one element ahead of downstream. Cycles need it: it asks before it is asked.

        Emits when: downstream asks and an element is kept or comes.   Backpressures when: an element is kept.
        Completes when: upstream completes and the element has been emitted.   Cancels when: downstream cancels.
        """
        return self._via(Detach())

    def conflate(self, aggregate: Callable[[Out, Out], U]) -> Ops[Out | U, Mat]:
        """Combine elements as long as downstream is silent, without bound: `aggregate(result, element)`.

        Emits when: downstream asks and an element is there.   Backpressures when: never, save while the function runs.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        """
        return self._via(Conflate(aggregate))

    def conflate_with_seed(self, seed: Callable[[Out], U], aggregate: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """As `conflate`, with results of another kind: `seed(element)` begins one, `aggregate(result, element)` adds to it.

        Emits when: downstream asks and a result is there.   Backpressures when: never, save while a function runs.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        """
        return self._via(ConflateWithSeed(seed, aggregate))

    def batch(self, max_elements: int, seed: Callable[[Out], U], aggregate: Callable[[U, Out], U]) -> Ops[U, Mat]:
        """Combine up to `max_elements` elements while downstream is silent: `seed(element)`, then `aggregate(result, element)`.

        Emits when: downstream asks and a result is there.
        Backpressures when: downstream does and the result has `max_elements`.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        """
        return self._via(Batch(max_elements, seed, aggregate))

    def batch_weighted(
        self,
        max_weight: int,
        cost: Callable[[Out], int],
        seed: Callable[[Out], U],
        aggregate: Callable[[U, Out], U],
    ) -> Ops[U, Mat]:
        """As `batch`, as long as the elements' costs add up to at most `max_weight`; one alone may cost more.

        Emits when: downstream asks and a result is there.
        Backpressures when: downstream does and the next element is too heavy.
        Completes when: upstream completes and the last result has been emitted.   Cancels when: downstream cancels.
        Supervision: resume drops the element, restart also what was combined so far.
        """
        return self._via(BatchWeighted(max_weight, cost, seed, aggregate))

    def expand(self, fn: Callable[[Out], Iterable[U]]) -> Ops[U, Mat]:
        """Turn each element into an iterator; emit its first result, and more of them while upstream is silent and downstream
        asks.

        Emits when: downstream asks and the iterator of the last element has a result.   Backpressures when: downstream does.
        Completes when: upstream completes, with one result of each element emitted.     Cancels when: downstream cancels.
        Supervision: resume and restart drop the element, or what its iterator still had.
        """
        return self._via(Expand(fn))

    def extrapolate(self, fn: Callable[[Out], Iterable[U]], initial: U = NOT_GIVEN) -> Ops[Out | U, Mat]:
        """Emit each element; while upstream is silent and downstream asks, emit what `fn(last element)` iterates over.

        `initial` stands for an element before the first.
        Emits when: downstream asks, and an element or a made-up one is there.   Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop the element, or what its iterator still had.
        """
        return self._via(Extrapolate(fn, initial))

    def throttle(
        self,
        n: int,
        per: Duration = "1s",
        burst: int | None = None,
        cost: Callable[[Out], float] | str | None = None,
        mode: str = "shaping",
    ) -> Ops[Out, Mat]:
        """Let through `n` elements, or elements of a total cost of `n`, per `per`, after a burst of at most `burst`.

        A token bucket that begins full. `burst` None: what the rate gives in 100 ms, at least 1; 0: not even the first comes at
        once. `cost(element)` says how many tokens an element takes. Mode "shaping" delays elements that come too fast,
        "enforcing" fails with RateExceeded.
        Emits when: upstream does and its tokens are there.   Backpressures when: downstream does, or tokens are missing (shaping).
        Completes when: upstream completes.           Cancels when: downstream cancels.
        Supervision: resume and restart drop an element for which `cost` raised.
        """
        if isinstance(cost, str):  # throttle(n, per, burst, mode): no element costs more than another
            mode = cost
            cost = None
        return self._via(Throttle(n, per, burst, cost, mode))
