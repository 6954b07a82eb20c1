"""The user's asyncio loop (`loop=`), as the stage sees it that runs coroutines there.

Owner: the stage. What was handed to a loop that is closed, or does not run, never ends: the stage fails, or a warning says it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from streamactors.actors.waits import forget_loop, need_loop
from streamactors.engine.logic import Logic
from streamactors.errors import AbruptTermination

LOOP_CHECK_MS: Final = 1_000
"""The time between two looks whether the user's own loop still runs."""

LOOKS: Final = 3
"""Looks in a row that find a loop which does not run, before a warning."""

_log = logging.getLogger("streamactors.engine")


class OwnLoop:
    """One loop for one stage: made when the stage is bound to its run, so that every wait for the run knows of it."""

    def __init__(self, logic: Logic, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._logic = logic
        self._idle_looks = 0
        need_loop(logic, loop, logic)

    def start(self) -> None:
        """Look from time to time: calls `on_timer("loop")` of the stage, which calls `look`."""
        self._logic.schedule_periodically("loop", LOOP_CHECK_MS, LOOP_CHECK_MS)

    def look(self, waiting: bool) -> None:
        """`waiting`: coroutines were handed to the loop and have not ended. Raises AbruptTermination when it is closed."""
        if waiting and self.loop.is_closed():
            raise self.closed()
        self._idle_looks = self._idle_looks + 1 if waiting and not self.loop.is_running() else 0
        if self._idle_looks == LOOKS:
            _log.warning(
                "%s: the asyncio loop that was given as loop= does not run, and coroutines wait for it; run it, or give the loop of the "
                "coroutine that starts the stream (asyncio.get_running_loop())",
                self._logic.name,
            )

    def closed(self) -> AbruptTermination:
        """Return the error that the loop is closed."""
        return AbruptTermination(
            f"{self._logic.name}: the asyncio loop that was given as loop= is closed, so no coroutine can run on it; let the stream end before "
            "its loop does: await its future"
        )

    def end(self) -> None:
        """The stage has stopped."""
        forget_loop(self._logic)
