"""One actor's mailbox and its turns: the unit that dispatchers and pools run.

Owner: any thread may `tell`; one thread at a time runs the turns. At rest a cell is its mailbox and nothing else: no
thread, no queue entry. Lock-free under the interpreter lock: `_token` is the right to schedule the cell, and deleting
an attribute is atomic, so exactly one of several simultaneous tellers gets it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from streamactors.gauges import Gauge
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.actors")

MESSAGES_PER_TURN: Final = 64
LARGEST_MAILBOX: Final = 100_000
"""Messages. A mailbox takes more, because a sender never waits; then messages arrive faster than the actor works, which is logged once."""

TOLD_TOO_FAST: Final = "messages arrive faster than it handles them; ask it and wait for the answers, or put a stream with a bounded queue before it"

Receive = Callable[[Any], object]
OnError = Callable[["Cell", BaseException], object]
OnDeadLetter = Callable[["Cell", Any], object]


class Executor(Protocol):
    """What runs cells: a dispatcher or a pool."""

    @property
    def name(self) -> str: ...

    def submit(self, cell: Cell) -> None:
        """Give the cell a turn soon. Thread-safe. The cell must not be queued or running already."""
        ...


def log_error(cell: Cell, error: BaseException) -> None:
    """The default `on_error`: log the error of `receive`; the next message is delivered as usual."""
    kind = type(error).__name__
    log_limited(
        _log, logging.ERROR, (cell.name, kind), "%s: receive raised %s: %s", cell.name, kind, error, exc_info=error
    )


def log_dead_letter(cell: Cell, message: Any) -> None:
    """The default `on_dead_letter`: log a message for a stopped cell."""
    _log.debug("%s: stopped, message of type %s dropped", cell.name, type(message).__name__)


class Cell:
    """A mailbox, and a function that gets its messages one by one, in order, on one thread at a time."""

    __slots__ = ("_executor", "_gauge", "_idle", "_token", "mailbox", "name", "on_dead_letter", "on_error", "receive")

    def __init__(
        self,
        executor: Executor,
        receive: Receive,
        name: str,
        on_error: OnError = log_error,
        on_dead_letter: OnDeadLetter = log_dead_letter,
    ) -> None:
        self._begin(executor, name)
        self.receive = receive
        self.on_error = on_error
        self.on_dead_letter = on_dead_letter

    def _begin(self, executor: Executor, name: str) -> None:
        """Make the mailbox. A subclass whose `receive` is a method calls this alone: a bound method in a field would be a reference cycle."""
        self.mailbox: deque[Any] = deque()
        self.name = name
        self._executor = executor
        self._gauge: Gauge | None = None  # made when more messages wait than a turn delivers
        self._token = True
        self._idle = True

    def tell(self, message: Any) -> None:
        """Put a message into the mailbox; thread-safe, never waits. After `stop` it goes to the dead letters."""
        self.mailbox.append(message)
        if self._idle:
            self._schedule()

    def stop(self) -> None:
        """From now on every message, those waiting included, goes to `on_dead_letter`. Thread-safe, idempotent."""
        self.receive = self._refuse

    @property
    def stopped(self) -> bool:
        return self.receive == self._refuse

    def _refuse(self, message: Any) -> None:
        self.on_dead_letter(self, message)

    def _schedule(self) -> None:
        try:
            del self._token
        except AttributeError:
            return  # another teller has it
        # Before submit: the turn that ends by setting it again can only begin after that.
        self._idle = False
        try:
            self._executor.submit(self)
        except BaseException:
            self._token = True  # so that the next `tell` raises, too
            self._idle = True
            raise

    def run_turn(self) -> bool:
        """Deliver the messages that are waiting now, up to a limit; return whether the cell wants another turn.

        For executors only. Messages that arrive during the turn wait for the next one, so a cell that sends messages to
        itself leaves room for others.
        """
        mailbox = self.mailbox
        waiting = len(mailbox)
        if waiting > MESSAGES_PER_TURN or self._gauge is not None:
            waiting = self._measured(waiting)
        for _ in range(waiting):
            message = mailbox.popleft()
            try:
                self.receive(message)
            except BaseException as error:  # noqa: BLE001 - the thread must continue for other cells, also after SystemExit
                self._report(error)
        if mailbox:
            return True
        self._token = True
        self._idle = True
        if mailbox:
            # A message came between the two looks at the mailbox. Its teller may have seen _idle unset, or may take the
            # token before this turn does.
            try:
                del self._token
            except AttributeError:
                return False
            self._idle = False
            return True
        return False

    def _measured(self, waiting: int) -> int:
        """Return how many of the messages this turn delivers."""
        if self._gauge is None:
            self._gauge = Gauge(f"the mailbox of {self.name}", LARGEST_MAILBOX, "messages", TOLD_TOO_FAST)
        self._gauge.reached(waiting)
        return min(waiting, MESSAGES_PER_TURN)

    def __call__(self) -> None:
        """Take one turn and queue up for the next if there is one. A dispatcher's loop runs a cell this way."""
        if self.run_turn():
            self.resubmit()

    def resubmit(self) -> None:
        """Queue up for a further turn. For executors only."""
        self._executor.submit(self)

    def belongs_to(self, executor: Executor) -> bool:
        """Return whether the next turn is to be on `executor`. For executors only."""
        return self._executor is executor

    def _report(self, error: BaseException) -> None:
        try:
            self.on_error(self, error)
        except BaseException:  # noqa: BLE001
            _log.exception("%s: its error handler raised", self.name)

    def __repr__(self) -> str:
        return f"<Cell {self.name!r}, {len(self.mailbox)} waiting>"
