"""Looking into a worker process: the parent asks at most once a second, and only while somebody looks; the process answers with what its stages do.

What is looked at, and how, is told by name, `module:function`: the function gets the actor system of the process and returns bytes. So the engine knows
nothing of pages. One question is on its way at a time: a process that is blocked gets no second one."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamactors.actors.workers.frames import Buffer
from streamactors.engine.workers.wire import LOOK, frame_of

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

_log = logging.getLogger("streamactors.engine")


class Looks:
    """The parent's side, for one process. Owner: the RemoteIsland, under its lock."""

    def __init__(self) -> None:
        self.newest: bytes | None = None
        """The last answer; None before the first one, and after the process has ended."""
        self._waiting = False

    def ask(self, by: str, send: Callable[[list[Buffer]], object]) -> None:
        """Ask, unless the last question has no answer yet."""
        if not self._waiting:
            self._waiting = True
            send(frame_of(LOOK, [by.encode()]))

    def answered(self, answer: bytes) -> None:
        """The process has answered."""
        self.newest, self._waiting = answer, False


def looked_at(by: str, system: ActorSystem) -> bytes:
    """Return what the function of this name sees in the worker process; nothing if it fails, since a look must not end the stages."""
    module, _, name = by.partition(":")
    try:
        answer: bytes = getattr(importlib.import_module(module), name)(system)
    except Exception:  # noqa: BLE001
        _log.debug("a look at the stages of this process has failed", exc_info=True)
        return b""
    return answer
