"""The source an Rx pipeline is put behind: it keeps its subscribers' callbacks and nothing else, so feeding is a plain call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactivex
from reactivex import abc
from reactivex.disposable import Disposable


class Feed(reactivex.Observable[Any]):
    """The source a pipeline is put behind: keeps the callbacks of its subscribers and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribers: list[tuple[Any, Any, Any]] = []

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
        self.subscribers.append(subscriber)

        def dispose() -> None:
            if subscriber in self.subscribers:
                self.subscribers.remove(subscriber)

        return Disposable(dispose)

    def each(self) -> Callable[[Any], None]:
        """Return the function that hands on one element."""
        if len(self.subscribers) == 1:
            on_next: Callable[[Any], None] = self.subscribers[0][0]
            return on_next

        def all_of_them(element: Any) -> None:
            for on_next, _, _ in list(self.subscribers):
                on_next(element)

        return all_of_them


def _nothing(*_: Any) -> None:
    pass
