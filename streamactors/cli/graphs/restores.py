"""The progress of restores, below the lines of `streamactors run`: state that is read from its changelogs before the stream begins.

Owner: the loop of the command, which looks ten times a second. Members of a run with several processes share a terminal, and show nothing."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from streamactors.cli.graphs.member import member_name
from streamactors.cli.progress import Count, progress

if TYPE_CHECKING:
    from types import TracebackType

    from streamactors.kafka.state.changelogs.watching import Restoring

WATCHING: Final = "streamactors.kafka.state.changelogs.watching"


def running_restores() -> list[Restoring]:
    """Return the restores of this process that have entries to read. Any thread."""
    watching = sys.modules.get(WATCHING)  # a run without state has not loaded it
    return [each for each in watching.RESTORES if each.offsets] if watching is not None else []


class Restores:
    """Shows a bar while a restore runs."""

    def __init__(self) -> None:
        self._shown = ExitStack()
        self._count: Count | None = None

    def __enter__(self) -> Restores:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.close()

    def look(self) -> None:
        """Begin, move or end the bar."""
        running = running_restores()
        if not running:
            if self._count is not None:
                self._shown.close()
                self._count = None
            return
        if self._count is None:
            self._count = self._shown.enter_context(
                progress("restore", 0, "entries", quiet=bool(member_name()), beside_stdout=True)
            )
        names = ", ".join(each.what for each in running)
        self._count.what = f"restore {names}"
        self._count.total = sum(each.offsets for each in running)
        self._count.done = sum(each.entries for each in running)
