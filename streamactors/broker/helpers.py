"""Helper threads for work that would block the data plane, such as a read from a cold disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped

T = TypeVar("T")

_THREADS: Final = 4


def call_on(dispatcher: Dispatcher, fn: Callable[[], T], timeout_s: float | None = None) -> T:
    """Return what `fn` returns, or raise its error, after a call on the dispatcher's thread. Raises TimeoutError."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(fn())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            done.set_exception(error)

    dispatcher.execute(run)
    return done.result(timeout_s)


@dataclass(frozen=True, slots=True)
class HelperOutcome(Generic[T]):
    """The outcome of a function: a value or an error."""

    value: T | None = None
    error: BaseException | None = None

    def get(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


class Helpers:
    """A few threads, started on first use."""

    def __init__(self, data_plane: Dispatcher) -> None:
        self._data_plane = data_plane
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"{data_plane.name}-helper")

    def run(self, fn: Callable[[], T], then: Callable[[HelperOutcome[T]], object]) -> None:
        """Call `fn()` on a helper thread, then `then(outcome)` on the data plane, unless the broker has stopped."""

        def deliver(future: Future[T]) -> None:
            if future.cancelled():
                return  # the broker stops, and the function was never called
            error = future.exception()
            outcome: HelperOutcome[T] = (
                HelperOutcome(error=error) if error is not None else HelperOutcome(value=future.result())
            )
            try:
                self._data_plane.execute(lambda: then(outcome))
            except DispatcherStopped:
                pass  # the broker has stopped

        self._pool.submit(fn).add_done_callback(deliver)

    def stop(self) -> None:
        """Finish the running functions, drop the waiting ones."""
        self._pool.shutdown(wait=True, cancel_futures=True)
