"""Sources that ask a function for the next element: unfold, unfold_async, unfold_resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.awaiting import can_be_awaited, when_done
from streamactors.engine.connection import Connection
from streamactors.engine.fusing import FeedLogic
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame, shortened
from streamactors.stages.checks import function, plain_function

_END: Any = object()


class ReadFeed:
    """A feed (engine/fusing.py) over a function: `read()` gives the next element, or `_END`.

    What was read before an error goes out first."""

    position = 0

    def __init__(self) -> None:
        self._back: list[Any] = []
        self._last: list[Any] = []
        self._over = False
        self._error: BaseException | None = None

    def read(self) -> Any:
        """Return the next element, `_END` when there is none."""
        raise NotImplementedError  # pragma: no cover

    def take(self, n: int, stop: list[int]) -> Iterator[Any]:
        """See Feed."""
        if self._back:
            chunk, self._back = self._back[:n], self._back[n:]
        elif self._error is not None:
            raise self._error
        else:
            chunk = self._read_up_to(n, stop)
        self._last = chunk
        self.position += len(chunk)
        return iter(chunk)

    def _read_up_to(self, n: int, stop: list[int]) -> list[Any]:
        chunk: list[Any] = []
        read = self.read
        try:
            while len(chunk) < n:
                element = read()
                if element is _END:
                    self._over = True
                    break
                chunk.append(element)
                if stop:
                    break
        except BaseException as error:  # whatever the user's function raised
            if not chunk:
                raise
            self._error = error
        return chunk

    def unread(self, n: int) -> None:
        """See Feed."""
        self._back = self._last[len(self._last) - n :] + self._back
        self.position -= n

    @property
    def exhausted(self) -> bool:
        """See Feed."""
        return self._over and not self._back and self._error is None


class Unfold(GraphStage):
    """Emit what a function makes of a state: `fn(state)` returns (next state, element), or None to complete.

    Emits when: there is demand and the function has returned.   Completes when: the function returns None.
    Fails when: the function raises.
    """

    shape = SOURCE

    def __init__(self, seed: Any, fn: Callable[[Any], tuple[Any, Any] | None]) -> None:
        self._seed = seed
        self._fn = plain_function("unfold", fn, "unfold_async")

    def feed(self, attributes: Attributes) -> ReadFeed:
        """Return a fresh feed."""
        return _UnfoldFeed(self._seed, self._fn)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return FeedLogic(self.feed, None, self.label, attributes), NOT_USED


class _UnfoldFeed(ReadFeed):
    def __init__(self, seed: Any, fn: Callable[[Any], Any]) -> None:
        super().__init__()
        self._state = seed
        self._fn = fn

    def read(self) -> Any:
        step = self._fn(self._state)
        if step is None:
            return _END
        self._state, element = _pair("unfold", step)
        return element


def _pair(operator: str, step: Any) -> Any:
    if not isinstance(step, tuple) or len(step) != 2:
        raise TypeError(
            f"{operator}: the function must return (next state, element) or None, got {shortened(step, 60)}"
        )
    return step


class UnfoldAsync(GraphStage):
    """As unfold, with a coroutine function or one that returns a future; one call at a time.

    Emits when: there is demand and the result has come.   Completes when: the result is None.
    Fails when: the function raises or its future fails.   Cancels when: downstream does; the call is cancelled.
    """

    shape = SOURCE

    def __init__(self, seed: Any, fn: Callable[[Any], Any]) -> None:
        self._seed = seed
        self._fn = function("unfold_async", fn, "a coroutine function")

    def logic(self) -> Logic:
        return _UnfoldAsyncLogic(self._seed, self._fn)


class _UnfoldAsyncLogic(SourceLogic):
    def __init__(self, seed: Any, fn: Callable[[Any], Any]) -> None:
        self._state = seed
        self._fn = fn
        self._cancel: Callable[[], Any] | None = None

    def on_pull(self, out: Connection) -> None:
        if self._cancel is not None:
            return
        try:
            awaited = self._fn(self._state)
        except BaseException as error:
            blame(error, self.name, self._state, self._fn)
            raise
        if not can_be_awaited(awaited):
            raise blame(
                TypeError(f"unfold_async: the function must return a future or be a coroutine function, got {shortened(awaited, 60)}"),
                self.name, self._state, self._fn,
            )  # fmt: skip
        self._cancel = when_done(self, awaited, self._came)

    def _came(self, step: Any, error: BaseException | None) -> None:
        self._cancel = None
        if error is not None:
            self.fail_stage(blame(error, self.name, self._state, self._fn))
        elif step is None:
            self.complete_stage()
        else:
            self._state, element = _pair("unfold_async", step)
            self.out.push([element])
            if self.out.asked:
                self.out.again()

    def on_stop(self) -> None:
        if self._cancel is not None:
            self._cancel()


class UnfoldResource(GraphStage):
    """Emit what is read from a resource: `open()` gives it, `read(resource)` the next element or None at the end.

    `close(resource)` runs when the stream completes, fails or is cancelled.
    Emits when: there is demand and `read` has returned.   Completes when: `read` returns None.
    Fails when: one of the functions raises. Supervision of `read`: resume reads on, restart closes and opens again.
    """

    shape = SOURCE

    def __init__(self, open: Callable[[], Any], read: Callable[[Any], Any], close: Callable[[Any], Any]) -> None:
        self._open = plain_function("unfold_resource: open", open)
        self._read = plain_function("unfold_resource: read", read)
        self._close = plain_function("unfold_resource: close", close)

    def feed(self, attributes: Attributes) -> ReadFeed:
        """Return a fresh feed; opens the resource."""
        return _ResourceFeed(self._open, self._read, self._close, attributes)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return FeedLogic(self.feed, None, self.label, attributes), NOT_USED


_CLOSED: Any = object()


class _ResourceFeed(ReadFeed):
    def __init__(
        self,
        open: Callable[[], Any],
        read: Callable[[Any], Any],
        close: Callable[[Any], Any],
        attributes: Attributes,
    ) -> None:
        super().__init__()
        self._open = open
        self._read = read
        self._close = close
        self._decider = attributes.decider
        self._resource = open()

    def read(self) -> Any:
        while True:
            try:
                element = self._read(self._resource)
            except BaseException as error:
                directive = Directive.STOP if self._decider is None else self._decider(error)
                if directive is Directive.STOP:
                    raise
                if directive is Directive.RESTART:
                    self.close()
                    self._resource = self._open()
                continue
            if element is not None:
                return element
            self.close()  # here, so that an error of it fails the stream
            return _END

    def close(self) -> None:
        """Close the resource, once."""
        resource, self._resource = self._resource, _CLOSED
        if resource is not _CLOSED:
            self._close(resource)
