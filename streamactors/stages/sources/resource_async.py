"""unfold_resource_async: a source over a resource whose three functions are asynchronous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.awaiting import can_be_awaited, when_done
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import SourceLogic, logic_of
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.user_code import blame, shortened
from streamactors.stages.checks import function

_CLOSED: Any = object()


class UnfoldResourceAsync(GraphStage):
    """The stage of `Source.unfold_resource_async`."""

    shape = SOURCE

    def __init__(self, open: Callable[[], Any], read: Callable[[Any], Any], close: Callable[[Any], Any]) -> None:
        self.open = function("unfold_resource_async: open", open)
        self.read = function("unfold_resource_async: read", read)
        self.close = function("unfold_resource_async: close", close)


@logic_of(UnfoldResourceAsync)
class _ResourceAsyncLogic(SourceLogic):
    """`keep_going` holds the stage until the resource is closed: a cancelled stage still has a call to wait for."""

    keep_going = True
    _resource: Any = _CLOSED
    _busy = False
    _ending: BaseException | None = None
    _ended = False

    def on_start(self) -> None:
        self._await(self.stage.open, (), self._opened)

    def on_pull(self, out: Connection) -> None:
        if not self._busy and not self._ended:
            self._await(self.stage.read, (self._resource,), self._read)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._end(None)

    def _await(self, fn: Callable[..., Any], arguments: tuple[Any, ...], then: Callable[[Any], None]) -> None:
        """Call a function of the user and have `then(result)` called on the island; a failure ends the stage."""
        self._busy = True

        def ended(result: Any, error: BaseException | None) -> None:
            self._busy = False
            if error is None:
                then(result)
            else:
                self._end(blame(error, self.name, function=fn))

        try:
            awaited = fn(*arguments)
            if not can_be_awaited(awaited):
                raise TypeError(
                    f"{self.name}: the function must return something to await, got {shortened(awaited, 60)}"
                )
        except BaseException as error:  # noqa: BLE001  # the user's function
            ended(None, error)
        else:
            when_done(self, awaited, ended)

    def _opened(self, resource: Any) -> None:
        self._resource = resource
        if self._ended:
            self._close()
        elif self.out.asked:
            self.on_pull(self.out)

    def _read(self, element: Any) -> None:
        if self._ended or element is None:
            self._end(None)
            return
        self.out.push([element])
        if self.out.asked:
            self.out.again()

    def _end(self, error: BaseException | None) -> None:
        """End the stage with `error`, or well; first the call in flight, then `close`."""
        self._ending = self._ending or error
        self._ended = True
        if not self._busy:
            self._close()

    def _close(self) -> None:
        resource, self._resource = self._resource, _CLOSED
        if resource is not _CLOSED:
            self._await(self.stage.close, (resource,), lambda _: self._close())
        elif self._ending is None:
            self.complete_stage()
        else:
            self.fail_stage(self._ending)
