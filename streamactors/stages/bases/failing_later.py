"""FailsLater: the base of stages whose failure must not overtake the results of the elements before it.

Such a stage has taken a whole chunk when it learns that an element of it fails, or that upstream has failed after it. Element by element the
results of the elements before would have left first; where chunks are cut must not change that."""

from __future__ import annotations

from typing import Final

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic

LAST_RESULTS_MS: Final = 50
"""The longest time that a failure waits for an island that is never idle."""

MOST_ROUNDS: Final = 16
"""How often it lets others go first that wait for the idle island, such as stages of its own substreams."""

_TIMER: Final = "last results"


class FailsLater(Logic):
    """`fail_later` fails the stage when its island has nothing else to do."""

    fails_later: BaseException | None = None
    """The failure that waits."""
    _of_element = False  # it is that of an element, which waits for its turn
    _look_due = False
    _rounds = 0

    def fail_later(self, error: BaseException, element_of: Connection | None = None) -> None:
        """Fail with `error` when the results of the elements taken so far have left, as far as downstream asks for them.

        `element_of`: the inlet of the element that has failed. The inlet is cancelled, and the error waits until `may_fail`."""
        if self.fails_later is None:
            self.fails_later = error
            self._of_element = element_of is not None
            if element_of is not None:
                element_of.cancel(error)
            self.schedule_once(_TIMER, LAST_RESULTS_MS)
            self.look_at_failure()

    def may_fail(self) -> bool:
        """True when the elements before the one that has failed have been handed over."""
        return True

    def look_at_failure(self) -> None:
        """Something has changed: fail when the island is idle, if it is time."""
        if not self._look_due and self.fails_later is not None:
            self._look_due = True
            self.call_when_idle(self._fail_if_due)

    def _fail_if_due(self) -> None:
        self._look_due = False
        if self.interpreter.when_idle and self._rounds < MOST_ROUNDS:
            self._rounds += 1
            self.look_at_failure()
        elif self.fails_later is not None and (not self._of_element or self.may_fail()):
            self.fail_stage(self.fails_later)

    def on_timer(self, key: object) -> None:
        if key == _TIMER:
            self._fail_if_due()
