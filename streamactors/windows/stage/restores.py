"""Restores: which states are being read, and the assignment that waits for one of them. Pure; part of the stage's state machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamactors.engine.marks.marks import Assigned
from streamactors.windows.stage.stage_effects import Effect, Install, PutMark, Restore


class Restores:
    """The restores of one stage, by the names of its tasks. `reading`: the tasks whose states are being read."""

    def __init__(self) -> None:
        self.reading: set[Any] = set()
        self._read: set[Any] = set()
        self._installed: set[Any] = set()
        self._waiting: tuple[Assigned, Any] | None = None

    def assigned(self, signal: Assigned, task: Any, following: Mapping[Any, Any]) -> list[Effect]:
        """The first input of a task is assigned: read its state, and those of the tasks assigned next (`following`: their partitions)."""
        self._waiting = signal, task
        if task in self._read:
            return self._install()
        partitions = {**following, task: signal.key[1]}
        wanted = [each for each in (task, *(each for each in following if each != task)) if self._is_new(each)]
        self.reading.update(wanted)
        return [Restore([partitions[each] for each in wanted])] if wanted else []

    def _is_new(self, task: Any) -> bool:
        return not any(task in known for known in (self.reading, self._read, self._installed))

    def restored(self, tasks: frozenset[Any]) -> list[Effect]:
        """States were read; the assignment that has waited for one of them passes."""
        self.reading -= tasks
        self._read |= tasks
        return self._install() if self._waiting is not None and self._waiting[1] in self._read else []

    @property
    def is_waiting(self) -> bool:
        """True while an assignment waits for its state: nothing after it may be taken."""
        return self._waiting is not None

    def _install(self) -> list[Effect]:
        assert self._waiting is not None
        signal, task = self._waiting
        self._waiting = None
        self._read.discard(task)
        self._installed.add(task)
        return [Install(task), PutMark(signal)]

    def dropped(self, task: Any) -> None:
        """A task was revoked, or begins again."""
        self._installed.discard(task)
