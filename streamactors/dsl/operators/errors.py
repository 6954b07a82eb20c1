"""Operators that handle an upstream failure.

`on` is the exception class or classes that an operator handles, or a predicate of the error; other failures pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out, U
from streamactors.durations import Duration
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.stage import NotUsed
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Sink, Source
    from streamactors.stages.errors.failed_element import FailedElement
    from streamactors.stages.errors.recovering import On
    from streamactors.stages.restart_settings import RestartSettings


class ErrorOps(Ops[Out, Mat]):
    """Operators that handle failures: replace, recover, continue, retry."""

    __slots__ = ()

    def map_error(self, fn: Callable[[Any], BaseException], on: On = Exception) -> Ops[Out, Mat]:
        """Turn a failure into another one: `fn(error)` returns the error to fail with.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2#
            a.map_error(lambda error: ValueError('other'))
        """
        from streamactors.stages.errors.recovering import MapError

        return self._via(MapError(fn, on))

    def recover(self, fn: Callable[[Any], U], on: On = Exception) -> Ops[Out | U, Mat]:
        """Emit one last element instead of failing: `fn(error)` returns it.

        Emits when: upstream does, and once when it failed.   Backpressures when: downstream does.
        Completes when: upstream completes, or failed and the last element has been emitted.   Cancels when: downstream cancels.

        Example:
            a -1-2#
            a.recover(lambda error: 0)
        """
        from streamactors.stages.errors.recovering import Recover

        return self._via(Recover(fn, on))

    def recover_with(self, fn: Callable[[Any], Source[U, Any]], on: On = Exception) -> Ops[Out | U, Mat]:
        """Continue with another source instead of failing: `fn(error)` returns it. A failure of that source is handled the same way.

        Emits when: upstream does, or after its failure the replacing source.   Backpressures when: downstream does.
        Completes when: upstream or the replacing source completes.   Cancels when: downstream cancels.

        Example:
            a -1-2#
            b -x-y|
            a.recover_with(lambda error: b)
        """
        from streamactors.stages.errors.recovering import RecoverWith

        return self._via(RecoverWith(fn, on))

    def recover_with_retries(
        self, attempts: int, fn: Callable[[Any], Source[U, Any]], on: On = Exception
    ) -> Ops[Out | U, Mat]:
        """As `recover_with`, at most `attempts` times (-1: without a limit); then the failure passes.

        Emits when: upstream does, or after its failure the replacing source.   Backpressures when: downstream does.
        Completes when: upstream or the replacing source completes.   Cancels when: downstream cancels.
        Fails when: upstream and the replacing sources have failed more than `attempts` times, with the last failure.

        Example:
            a -1-2#
            b -x-#
            a.recover_with_retries(1, lambda error: b)
        """
        from streamactors.stages.errors.recovering import RecoverWithRetries

        return self._via(RecoverWithRetries(attempts, fn, on))

    def on_error_complete(self, on: On = Exception) -> Ops[Out, Mat]:
        """Complete instead of failing.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes or fails.  Cancels when: downstream cancels.

        Example:
            a -1-2#
            a.on_error_complete()
        """
        from streamactors.stages.errors.recovering import OnErrorComplete

        return self._via(OnErrorComplete(on))

    def on_error_resume(self, fn: Callable[[Any], Source[U, Any]], on: On = Exception) -> Ops[Out | U, Mat]:
        """As `recover_with`; the name that Reactive Streams libraries use.

        Example:
            a -1-2#
            b -x-y|
            a.on_error_resume(lambda error: b)
        """
        from streamactors.stages.errors.recovering import RecoverWith

        return self._via(RecoverWith(fn, on))

    def on_error_continue(
        self, fn: Callable[[BaseException], object] | None = None, on: On = Exception
    ) -> Ops[Out, Mat]:
        """Drop the elements for which a stage before this fails, and call `fn(error)` for each; other failures stop the stream.

        The decider of all stages up to here that honour supervision (see their pages). Dropped elements are logged: one line a second for each place that raises.

        Example:
            a -1-0-3|
            a.map(lambda x: 6 // x).on_error_continue()
        """
        from streamactors.stages.errors.recovering import failures

        chosen = failures("on_error_continue", on)
        if fn is not None:
            plain_function("on_error_continue", fn)

        def decide(error: BaseException) -> Directive:
            if not chosen(error):
                return Directive.STOP
            if fn is not None:
                try:
                    fn(error)
                except BaseException as worse:
                    blame(worse, "on_error_continue", error, fn)
                    raise
            return Directive.RESUME

        return self.with_attributes(decider=decide)

    def retry(
        self,
        attempts: int,
        backoff: Duration | RestartSettings,
        on: On = Exception,
        dead_letters: Sink[FailedElement, Any] | None = None,
    ) -> Ops[Out, NotUsed]:
        """Run each element through the flow built so far. After a failure make the flow again and give it the same element, up to `attempts` times.

        `backoff` (seconds, a timedelta or a string): the delay before the second attempt; it doubles, up to a minute. `on`: the exceptions that are
        tried again; others fail the stream. `dead_letters`: a sink of FailedElement(element, error, attempts) for elements whose last
        attempt has failed, such as `Producer.dead_letter_sink`; without it the last error fails the stream. One element at a time is inside
        the flow, and a failed attempt emits nothing. A stage that remembers earlier elements is refused, because the flow is made again.
        Emits when: the flow is done with an element.   Backpressures when: downstream does, an element is inside the flow, or a delay runs.
        Completes when: upstream completes and the flow does.   Cancels when: downstream cancels.
        Fails when: the last attempt fails and there are no dead letters; the flow fails with an error that `on` does not choose.

        Example:
            a 1-0-3|
            a.via(Flow.map(lambda x: 6 // x).retry(2, RestartSettings('20ms', '20ms', random_factor=0), dead_letters=Sink.ignore()))
        """
        from streamactors.stages.control.retrying_flow import RetryingFlow
        from streamactors.stages.errors.failed_element import has_failed
        from streamactors.stages.junctions.sides_first import DivertTo

        if self._is_source_or_substream():
            raise BuildError(
                f"{type(self).__name__}.retry: a source does not give an element again; retry the flow downstream of it: "
                "source.via(Flow.map(f).retry(3, '1s'))"
            )
        retried = self._with(
            StageModule(RetryingFlow(self.module, attempts, backoff, on, keep=dead_letters is not None))
        )
        if dead_letters is None:
            return retried
        return retried._fan_out(DivertTo(has_failed), dead_letters)

    def validate(
        self, fn: Callable[[Out], U | None], *, dead_letters: Sink[FailedElement, Any], on: On = Exception
    ) -> Ops[U, Mat]:
        """Emit `fn(element)`; an element for which `fn` raises goes to the sink `dead_letters` as FailedElement(element, error).

        `fn` returns the element to emit, for example a model made of it; None emits the element itself, so that a function which only checks can be
        used. `on`: the exceptions that make an element invalid; others fail the stream. `Producer.dead_letter_sink(settings, topic)` is such a
        sink, and stores records with their origin and the error. With a Kafka source the offset is committed when the dead letter is stored.
        Emits when: `fn` has returned, and the dead letters before it are taken.   Backpressures when: downstream or `dead_letters` does.
        Completes when: upstream completes and the sink has ended.   Cancels when: downstream or the sink cancels.
        Fails when: upstream or the sink fails; `fn` raises an error that `on` does not choose, or returns a bool.
        Supervision: resume and restart drop the element.

        Example:
            a -1-0-3|
            a.validate(lambda x: 6 // x, dead_letters=Sink.foreach(lambda failed: seen.append(failed.element)))
        """
        from streamactors.stages.errors.failed_element import has_failed
        from streamactors.stages.junctions.sides_first import DivertTo
        from streamactors.stages.transform.validating import Validate, dead_letters_or_error

        sink = dead_letters_or_error("validate", dead_letters)
        return self._via(Validate(fn, on))._fan_out(DivertTo(has_failed), sink)

    def _is_source_or_substream(self) -> bool:
        return bool(self.module.shape.outlets) and (not self.module.shape.inlets or type(self).__name__ == "SubFlow")
