"""Sources that call a function for the next element: unfold, unfold_async, unfold_resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.awaiting import can_be_awaited, when_done
from streamactors.engine.fusing.source import FeedLogic
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic, logic_of
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.engine.supervision import Directive
from streamactors.engine.user_code import blame, shortened
from streamactors.stages.checks import function, plain_function
from streamactors.stages.sources.iterables import BackedFeed

_END: Any = object()


class ReadFeed(BackedFeed):
    """A feed over a function: `step()` returns the next element, or `_END`."""

    def step(self) -> Any:
        """Return the next element, `_END` when there is none."""
        raise NotImplementedError  # pragma: no cover

    def read(self, n: int, chunk: list[Any], stop: list[int]) -> bool:
        step = self.step
        while len(chunk) < n:
            element = step()
            if element is _END:
                return True
            chunk.append(element)
            if stop:
                break
        return False


class Unfold(GraphStage):
    """The stage of `Source.unfold` and `Source.iterate`."""

    shape = SOURCE

    def __init__(self, seed: Any, fn: Callable[[Any], tuple[Any, Any] | None]) -> None:
        self.seed = seed
        self.fn = plain_function("unfold", fn, "unfold_async")

    def feed(self, attributes: Attributes) -> ReadFeed:
        """Return a fresh feed."""
        return _UnfoldFeed(self)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return FeedLogic(self.feed, None, self.label, attributes), NOT_USED


class _UnfoldFeed(ReadFeed):
    def __init__(self, stage: Unfold) -> None:
        super().__init__()
        self._state = stage.seed
        self._fn = stage.fn

    def step(self) -> Any:
        made = self._fn(self._state)
        if made is None:
            return _END
        self._state, element = _pair("unfold", made)
        return element


def _pair(operator: str, step: Any) -> Any:
    if not isinstance(step, tuple) or len(step) != 2:
        raise TypeError(
            f"{operator}: the function must return (next state, element) or None, got {shortened(step, 60)}"
        )
    return step


class UnfoldAsync(GraphStage):
    """The stage of `Source.unfold_async`."""

    shape = SOURCE

    def __init__(self, seed: Any, fn: Callable[[Any], Any]) -> None:
        self.seed = seed
        self.fn = function("unfold_async", fn, "a coroutine function")


@logic_of(UnfoldAsync)
class _UnfoldAsyncLogic(SourceLogic):
    def __init__(self, stage: UnfoldAsync) -> None:
        super().__init__(stage)
        self._state = stage.seed
        self._cancel: Callable[[], Any] | None = None

    def on_pull(self, out: Connection) -> None:
        if self._cancel is not None:
            return
        try:
            awaited = self.stage.fn(self._state)
        except BaseException as error:
            blame(error, self.name, self._state, self.stage.fn)
            raise
        if not can_be_awaited(awaited):
            raise blame(
                TypeError(f"unfold_async: the function must return a future or be a coroutine function, got {shortened(awaited, 60)}"),
                self.name, self._state, self.stage.fn,
            )  # fmt: skip
        self._cancel = when_done(self, awaited, self._came)

    def _came(self, step: Any, error: BaseException | None) -> None:
        self._cancel = None
        if error is not None:
            self.fail_stage(blame(error, self.name, self._state, self.stage.fn))
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
    """The stage of `Source.unfold_resource`."""

    shape = SOURCE

    def __init__(self, open: Callable[[], Any], read: Callable[[Any], Any], close: Callable[[Any], Any]) -> None:
        self.open = plain_function("unfold_resource: open", open)
        self.read = plain_function("unfold_resource: read", read)
        self.close = plain_function("unfold_resource: close", close)

    def feed(self, attributes: Attributes) -> ReadFeed:
        """Return a fresh feed; opens the resource."""
        return _ResourceFeed(self, attributes)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return FeedLogic(self.feed, None, self.label, attributes), NOT_USED


_CLOSED: Any = object()


class _ResourceFeed(ReadFeed):
    def __init__(self, stage: UnfoldResource, attributes: Attributes) -> None:
        super().__init__()
        self._stage = stage
        self._decider = attributes.decider
        self._resource = stage.open()

    def step(self) -> Any:
        while True:
            try:
                element = self._stage.read(self._resource)
            except BaseException as error:
                directive = Directive.STOP if self._decider is None else self._decider(error)
                if directive is Directive.STOP:
                    raise
                if directive is Directive.RESTART:
                    self.close()
                    self._resource = self._stage.open()
                continue
            if element is not None:
                return element
            self.close()  # here, so that an error of `close` fails the stream
            return _END

    def close(self) -> None:
        """Close the resource, once."""
        resource, self._resource = self._resource, _CLOSED
        if resource is not _CLOSED:
            self._stage.close(resource)
