"""The source of an Rx pipeline: it keeps only its subscribers' callbacks, so feeding an element is a plain call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import reactivex
from reactivex import abc
from reactivex.disposable import Disposable

from streamactors.errors import StageFailed

MOST_AFTER_THE_END: Final = 1_000


def _nothing(*_: Any) -> None:
    pass


class RxFeed(reactivex.Observable[Any]):
    """The source of a pipeline. It keeps the callbacks of its subscribers, and its end."""

    def __init__(self, subscribed: Callable[[], None] = _nothing) -> None:
        super().__init__()
        self._subscribed = subscribed
        self.subscribers: list[tuple[Any, Any, Any]] = []
        self._end: list[BaseException | None] = []  # one item when the feed has ended: the error, or None
        self._after_the_end = 0

    def subscribe(  # without the wrapper object per subscriber
        self,
        on_next: Any = None,
        on_error: Any = None,
        on_completed: Any = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        if hasattr(on_next, "on_next"):
            observer = on_next
            on_next, on_error, on_completed = observer.on_next, observer.on_error, observer.on_completed
        subscriber = (on_next or _nothing, on_error or _nothing, on_completed or _nothing)
        if self._end:
            # repeat and retry subscribe again; an ended feed, like an ended Subject, sends only its end
            self._after_the_end += 1
            if self._after_the_end > MOST_AFTER_THE_END:
                raise StageFailed(
                    f"rx: an operator has subscribed {MOST_AFTER_THE_END} times to a stream that has ended; give repeat or retry a "
                    "number, or create the source again with RestartSource"
                ) from self._end[0]
            self._tell_end(subscriber)
            return Disposable()
        self.subscribers.append(subscriber)
        self._subscribed()

        def dispose() -> None:
            if subscriber in self.subscribers:
                self.subscribers.remove(subscriber)

        return Disposable(dispose)

    def end(self, error: BaseException | None) -> None:
        """Complete, or fail with `error`, all present and future subscribers."""
        self._end.append(error)
        for subscriber in list(self.subscribers):
            self._tell_end(subscriber)

    def _tell_end(self, subscriber: tuple[Any, Any, Any]) -> None:
        _, on_error, on_completed = subscriber
        error = self._end[0]
        if error is None:
            on_completed()
        else:
            on_error(error)

    def each(self) -> Callable[[Any], None]:
        """Return the function that passes one element to the present subscribers."""
        if len(self.subscribers) == 1:
            on_next: Callable[[Any], None] = self.subscribers[0][0]
            return on_next

        def all_of_them(element: Any) -> None:
            for on_next, _, _ in list(self.subscribers):
                on_next(element)

        return all_of_them
