"""Gates: what an RxPY operator holds, counted around it, so that a mark passes when everything before it has left the operator.

A gate surrounds one operator: it counts each element that goes in and each result that comes out. Marks go through the gates of a
pipeline in order. RxPY may call on any thread, so all gates of a pipeline share a lock; the stage takes it too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import reactivex
from reactivex import abc
from reactivex import operators as ops
from reactivex.disposable import CompositeDisposable, Disposable
from reactivex.internal import is_future

from streamactors.engine.marks.marks import Epochs, Mark
from streamactors.stages.bases.emitting import keep

Operator = Callable[[Any], Any]


class Gate:
    """Base. `on_mark` passes a mark to `passed` or keeps it."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock  # an RLock
        self.passed: Callable[[Mark], None]
        self.held: deque[Any] = deque()

    def around(self, operator: Operator) -> Operator:
        """Return the operator with this gate around it."""
        return lambda source: _heard(operator(_heard(source, before=self._in)), after=self._out)

    def _in(self) -> None:
        with self.lock:
            self.entered()

    def _out(self) -> None:
        with self.lock:
            self.left()

    def entered(self) -> None:
        """An element is about to go in."""

    def left(self) -> None:
        """A result has come out, and has gone through everything downstream."""

    def on_mark(self, mark: Mark) -> None:
        """A mark has arrived after every element that went in."""
        raise NotImplementedError  # pragma: no cover

    def release(self) -> None:
        """Pass every mark: nothing is held any more."""
        held = self.held
        while held:
            self.passed(held.popleft())


class FlushGate(Gate):
    """An operator that has nothing left once it emits: buffers that do not overlap."""

    _holds = False

    def entered(self) -> None:
        self._holds = True

    def left(self) -> None:
        self._holds = False
        self.release()

    def on_mark(self, mark: Mark) -> None:
        if self._holds:
            keep(self.held, mark)
        else:
            self.passed(mark)


class LatestGate(FlushGate):
    """An operator that holds the latest element at most: debounce, sample. A newer element takes the place of the one before."""

    def entered(self) -> None:
        self.release()  # what the marks cover is dropped on purpose
        super().entered()


class DelayGate(Gate):
    """An operator with one result for each element, in order, later: delay."""

    _in_count = 0
    _out_count = 0

    def entered(self) -> None:
        self._in_count += 1

    def left(self) -> None:
        self._out_count += 1
        held = self.held
        while held and held[0][0] <= self._out_count:
            self.passed(held.popleft()[1])

    def on_mark(self, mark: Mark) -> None:
        if self._in_count == self._out_count:
            self.passed(mark)
        else:
            self.held.append((self._in_count, mark))

    def release(self) -> None:
        while self.held:
            self.passed(self.held.popleft()[1])


class InnerGate(Gate):
    """An operator that subscribes to observables: flat_map, switch_latest and others. An element is done when its observable has ended or
    was left for another."""

    def __init__(self, lock: Any) -> None:
        super().__init__(lock)
        self._epochs = Epochs()

    def around(self, operator: Operator) -> Operator:
        return lambda source: operator(source.pipe(ops.map(self.counted)))

    def counted(self, inner: Any) -> Any:
        """Return the observable of one element; its end is counted once."""
        with self.lock:
            token: int | None = self._epochs.enter()

        def ended() -> None:
            nonlocal token
            with self.lock:
                if token is not None:
                    marks = self._epochs.leave(token)
                    token = None
                    for mark in marks:
                        self.passed(mark)

        observable = reactivex.from_future(inner) if is_future(inner) else inner

        def subscribe(
            observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            def on_completed() -> None:
                ended()
                observer.on_completed()

            subscription = observable.subscribe(observer.on_next, observer.on_error, on_completed, scheduler=scheduler)
            return CompositeDisposable(subscription, Disposable(ended))

        return reactivex.Observable(subscribe)

    def on_mark(self, mark: Mark) -> None:
        for ripe in self._epochs.mark(mark.copy() if isinstance(mark, dict) else mark):
            self.passed(ripe)

    def release(self) -> None:
        for mark in self._epochs.all():
            self.passed(mark)


def _heard(source: Any, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None) -> Any:
    """Return `source` with a call before or after each of its elements is passed on."""

    def subscribe(observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        on_next = observer.on_next

        def each(element: Any) -> None:
            if before is not None:
                before()
            on_next(element)
            if after is not None:
                after()

        subscription: abc.DisposableBase = source.subscribe(
            each, observer.on_error, observer.on_completed, scheduler=scheduler
        )
        return subscription

    return reactivex.Observable(subscribe)
