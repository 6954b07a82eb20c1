"""Operators that call a function once: do_on_first, do_on_cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.engine.user_code import blame
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.checks import plain_function


class DoOnFirst(Stage[In, In]):
    """The stage of `Source.do_on_first`."""

    handling = EXACT

    def __init__(self, fn: Callable[[Any], object]) -> None:
        self.fn = plain_function("do_on_first", fn)


@logic_of(DoOnFirst)
class _DoOnFirstLogic(PassingLogic):
    _called = False

    def on_push(self, in_: Connection) -> None:
        if self._called:
            super().on_push(in_)
            return
        chunk = in_.grab(self.out.asked)
        if chunk:
            self._called = True
            try:
                self.stage.fn(chunk[0])
            except BaseException as error:
                blame(error, self.name, chunk[0], self.stage.fn)
                raise
            self.out.push(chunk)
        if self.out.asked:
            in_.want(self.out.asked)


class DoOnCancel(Stage[In, In]):
    """The stage of `Source.do_on_cancel`."""

    handling = EXACT

    def __init__(self, fn: Callable[[BaseException, bool], object]) -> None:
        self.fn = plain_function("do_on_cancel", fn)


@logic_of(DoOnCancel)
class _DoOnCancelLogic(PassingLogic):
    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        try:
            self.stage.fn(cause, isinstance(cause, NonFailureCancellation))
        except BaseException as error:
            blame(error, self.name, function=self.stage.fn)
            raise
        finally:
            super().on_cancel(out, cause)
