"""Parts of controls: the attributes that one control has from another, and how the future of `drain` is settled. Owner: `control.py`."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Any

from streamactors.actors.futures import StreamFuture, UnreadFailure


class Passed:
    """An attribute that a control has from the control that it stands for. While there is none it is the control's own."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, control: Any, owner: type | None = None) -> Any:
        if control is None:
            return self
        other = control._stands_for
        return control.__dict__[self._name] if other is None else getattr(other, self._name)

    def __set__(self, control: Any, value: Any) -> None:
        other = control._stands_for
        if other is None:
            control.__dict__[self._name] = value
        else:
            setattr(other, self._name, value)


def settle(drained: StreamFuture[Any], ended: Future[None], done: Future[Any] | None) -> None:
    """The stream and its consumer have ended: give their outcome to the future of `drain`. The stream's error comes first."""
    error = ended.exception()
    if done is not None and (done.cancelled() or done.exception() is not None):
        error = CancelledError() if done.cancelled() else done.exception()
    if error is None:
        drained.try_complete(None if done is None else done.result())
        return
    failure: UnreadFailure | None = getattr(done, "failure", None)
    drained.try_fail_of(None if failure is None else UnreadFailure(failure.text), error)
