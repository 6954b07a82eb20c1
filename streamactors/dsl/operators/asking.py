"""Operators that wait for an answer: of an actor, or of an asynchronous function that gets the value so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.actors.messages import ActorAddress
from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.durations import Duration


class AskOps(Ops[Out, Mat]):
    """Operators that ask actors, or fold with asynchronous functions, inherited by Source, Flow and sub-flows."""

    __slots__ = ()

    def ask(self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2) -> Ops[Any, Mat]:
        """Send each element to an actor and emit its answers, in the elements' order, up to `parallelism` at a time.
        A number as `timeout` is seconds.

        Emits when: the oldest question has been answered.   Backpressures when: `parallelism` questions are open.
        Completes when: upstream completes and all answers have been emitted.   Cancels when: downstream cancels.
        Fails when: an answer does not come within `timeout` (AskTimeout), or the actor has stopped (ActorError).
        Supervision: resume and restart drop the element.
        Marks: in the queue of questions.

        Example:
            a -1-2-3|
            a.ask(tens)
        """
        from streamactors.stages.asynchronous.asking import Ask

        return self._via(Ask(actor, timeout, parallelism))

    def ask_with_status(self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2) -> Ops[Any, Mat]:
        """As `ask`, for an actor that answers with `StatusReply.success(value)` or `StatusReply.error(...)`; emit the values.
        A number as `timeout` is seconds.

        Emits when: the oldest question has been answered.   Backpressures when: `parallelism` questions are open.
        Completes when: upstream completes and all answers have been emitted.   Cancels when: downstream cancels.
        Fails when: an answer is an error, does not come within `timeout` (AskTimeout), or is not a StatusReply; the actor has stopped.
        Supervision: resume and restart drop the element.
        Marks: in the queue of questions.

        Example:
            a -1-2-0-3|
            a.ask_with_status(checked)
        """
        from streamactors.stages.asynchronous.asking import AskWithStatus

        return self._via(AskWithStatus(actor, timeout, parallelism))

    def scan_async(self, zero: U, fn: Callable[[U, Out], Any]) -> Ops[U, Mat]:
        """Emit `zero`, then for each element the value so far combined with it by the asynchronous `fn(value, element)`.

        `fn` may be a coroutine function, or a plain function, which runs on the system's threads and may return a future.
        Each run starts with a copy of `zero`.
        Emits when: a call has ended.                 Backpressures when: downstream does, or a call runs.
        Completes when: upstream completes and the last call has ended.   Cancels when: downstream cancels.
        Fails when: a call fails.
        Supervision: resume drops the element; restart goes back to `zero` and emits it.
        Marks: in the queue of calls.

        Example:
            a -1----2|
            a.scan_async(0, add)
        """
        from streamactors.stages.asynchronous.scan_async import ScanAsync

        return self._via(ScanAsync(zero, fn))

    def fold_async(self, zero: U, fn: Callable[[U, Out], Any]) -> Ops[U, Mat]:
        """Combine all elements by the asynchronous `fn(value, element)`, beginning with `zero`; emit the result at the end.

        Emits when: upstream completes and the last call has ended.   Backpressures when: a call runs.
        Completes when: the result has been emitted.                  Cancels when: downstream cancels.
        Fails when: a call fails.   Supervision: resume drops the element, restart also goes back to `zero`.
        Marks: after the result.

        Example:
            a -1----2|
            a.fold_async(0, add)
        """
        from streamactors.stages.asynchronous.scan_async import ScanAsync
        from streamactors.stages.fold.fold import Reduce

        return self._via_as("fold_async", ScanAsync(zero, fn), Reduce(lambda _, value: value))
