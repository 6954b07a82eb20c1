"""Handling of an actor's errors: Thespian's second try and PoisonMessage, or the directive of its parent's strategy.

Owner: RunningActor, which has FailingActor as a base; on the thread of the turn.
"""

from __future__ import annotations

import copy
import logging
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from thespian.actors import Actor, ActorExitRequest, PoisonMessage

from streamactors.actors.address import ActorRef
from streamactors.actors.cell import Cell
from streamactors.actors.running.handlers import Behaviour, behaviour_of
from streamactors.actors.running.life import CONTROL, ChildFailed, Life, Restart
from streamactors.actors.running.supervision import Directive, FailureRecord, Supervision, Verdict
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.actors.local_system import LocalSystemBase

_log = logging.getLogger("streamactors.actors")

Envelope = tuple[Any, "ActorRef | None"]


class FailingActor(Cell):
    """The part of an actor's cell that deals with errors."""

    __slots__ = (
        "_behaviour",
        "_held",
        "_life",
        "_make",
        "_record",
        "_strategy",
        "_thespian_errors",
        "address",
        "base",
        "children",
        "instance",
        "parent",
    )

    address: ActorRef
    base: LocalSystemBase
    instance: Actor | None
    parent: FailingActor | None
    children: dict[ActorRef, FailingActor] | None
    _behaviour: Behaviour
    _life: Life
    _make: Callable[[], Actor] | None  # makes another instance; None: the actor was given as an instance
    _strategy: Supervision | None
    _thespian_errors: bool
    _record: FailureRecord | None
    _held: deque[Envelope] | None  # while restarting

    def _exit(self, recursive: bool) -> None:
        raise NotImplementedError

    def _set_watch(self, result: object, answered: bool) -> None:
        raise NotImplementedError

    def _failed(self, error: BaseException, message: Any, sender: ActorRef | None) -> object:
        """The actor raised. Return the result of the second try, or None."""
        if isinstance(message, ActorExitRequest):
            _log.debug("%s: ActorExitRequest raised %s; it exits all the same", self.name, error, exc_info=error)
            return None
        if self._strategy is not None or not self._thespian_errors:
            self._supervised(error, message, sender)
            return None
        kind = type(message).__name__
        log_limited(
            _log, logging.WARNING, (self.name, kind, type(error)),
            "%s: %s raised %r; trying once more", self.name, kind, error, exc_info=error,
        )  # fmt: skip
        try:
            return self._behaviour(copy.deepcopy(message), sender)
        except BaseException as second:  # noqa: BLE001
            log_limited(
                _log, logging.ERROR, (self.name, kind, type(second)),
                "%s: %s raised %r again; returned as poison", self.name, kind, second,
            )  # fmt: skip
            self._poison(message, sender)
            return None

    def _poison(self, message: Any, sender: ActorRef | None) -> None:
        if sender is not None and type(message) not in CONTROL and not isinstance(message, PoisonMessage):
            sender.tell(PoisonMessage(message, traceback.format_exc()), self.address)

    def _supervised(self, error: BaseException, message: Any, sender: ActorRef | None) -> None:
        self._poison(message, sender)
        verdict = self._judge(error)
        directive, delay_ms = verdict.directive, verdict.delay_ms
        after = f" in {delay_ms:.0f} ms" if directive is Directive.RESTART else ""
        log_limited(
            _log, logging.ERROR, (self.name, type(error), directive),
            "%s failed: %r; %s%s", self.name, error, directive.value, after, exc_info=error,
        )  # fmt: skip
        if directive is Directive.RESTART:
            self._suspend(error, delay_ms)
        elif directive is Directive.STOP:
            self._exit(True)
        elif directive is Directive.ESCALATE:
            parent = self.parent
            self._exit(True)
            if parent is not None:
                parent.tell((ChildFailed(error), None))

    def _judge(self, error: BaseException) -> Verdict:
        if self._strategy is None:
            return Verdict(Directive.STOP)
        if self._record is None:
            self._record = FailureRecord()
        try:
            verdict = self._record.judge(self._strategy, error, self.base.clock.now_ms())
        except Exception as wrong:  # noqa: BLE001 - a broken strategy must not keep a broken actor alive
            _log.error("%s: its supervision raised %s; stopped", self.name, wrong, exc_info=wrong)
            return Verdict(Directive.STOP)
        if verdict.directive is Directive.RESTART and self._make is None:
            return Verdict(Directive.STOP)  # the actor was given as an instance, so there is no way to make another
        return verdict

    def _suspend(self, error: BaseException, delay_ms: float) -> None:
        before = getattr(self.instance, "pre_restart", None)
        if before is not None:
            try:
                before(error)
            except Exception as wrong:  # noqa: BLE001
                _log.warning("%s: pre_restart raised %s", self.name, wrong, exc_info=wrong)
        self._life = Life.RESTARTING
        if self._held is None:
            self._held = deque()
        self._set_watch(None, False)
        for child in (self.children or {}).values():
            child.parent = None  # the new instance does not know them and must get no ChildActorExited
            child.stop()
        self.children = None
        self.base.timers.call_later(delay_ms, partial(self.tell, (Restart(), None)))

    def _restart(self) -> None:
        assert self._make is not None
        try:
            instance = self._make()
            instance._myRef = self
            self.instance, self._behaviour = instance, behaviour_of(instance)
        except Exception as error:  # noqa: BLE001
            self._life = Life.ALIVE
            self._supervised(error, Restart(), None)
            return
        self._life = Life.ALIVE
        held, self._held = self._held, None
        for envelope in held or ():
            self.receive(envelope)
