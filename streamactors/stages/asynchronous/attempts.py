"""Further attempts of calls that have failed (`map_async(retry=…)`).

Owner: the stage of the calls. A call that waits for its next attempt keeps its place: it counts towards the parallelism, marks wait for it,
and its key stays busy. Other calls run meanwhile."""

from __future__ import annotations

import logging

from streamactors.engine.logic import Logic
from streamactors.engine.user_code import blame
from streamactors.errors import BuildError, CircuitOpen
from streamactors.stages.asynchronous.calls import Call
from streamactors.stages.restart_settings import RestartSettings

_log = logging.getLogger("streamactors.stages.retry")


def retry_settings(operator: str, retry: object) -> RestartSettings | None:
    """Return `retry` if it is RestartSettings or None."""
    if retry is None or isinstance(retry, RestartSettings):
        return retry
    raise BuildError(
        f"{operator}: retry must be RestartSettings, got {type(retry).__name__} {retry!r}; three further attempts: "
        'RestartSettings("100ms", "10s", max_restarts=3)'
    )


class Attempts:
    """Says which failed call is made again, and when."""

    def __init__(self, logic: Logic, settings: RestartSettings) -> None:
        self._logic = logic
        self._settings = settings
        self.waiting = 0
        """The calls that wait for their next attempt."""

    def again(self, call: Call) -> bool:
        """A call has failed: True if it is made again, by the timer whose key is the call. Raises what `restart_on` raises."""
        error, settings = call.error, self._settings
        assert error is not None
        if isinstance(error, CircuitOpen):  # no call was made, so no attempt is used up
            delay_ms = max(error.retry_after_ms, settings.delay_ms(0))
        else:
            call.failed += 1
            if not isinstance(error, Exception) or not self._is_chosen(call, error):
                return False
            most = settings.max_restarts
            if most is not None and call.failed > most:
                if most:
                    error.add_note(f"{self._logic.name}: attempt {call.failed} of {most + 1}")
                return False
            delay_ms = settings.delay_ms(call.failed - 1)
            _log.info(
                "%s: attempt %d failed with %s: %s; next in %.0f ms",
                self._logic.name,
                call.failed,
                type(error).__name__,
                error,
                delay_ms,
            )
        self.waiting += 1
        call.error, call.done, call.cancel = None, False, None
        self._logic.schedule_once(call, delay_ms)
        return True

    def _is_chosen(self, call: Call, error: Exception) -> bool:
        chosen = self._settings.restart_on
        if chosen is None:
            return True
        try:
            return bool(chosen(error))
        except BaseException as worse:
            blame(worse, f"{self._logic.name}: restart_on", call.element, chosen)
            raise
