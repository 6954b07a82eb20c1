"""The inputs of each task, as marks tell of them: which are assigned, silent, at their end.

Owner: the windowed stage; pure. A task is fed by the partitions of one number of all topics that are read together: it comes with
the first of them, goes with the last, is as silent as the least silent, and ends when all have ended."""

from __future__ import annotations

from typing import Any

from streamactors.engine.marks import Key
from streamactors.windows.tasks import number_of


class Inputs:
    """See the module. A key names an input, as in marks: (source, partition)."""

    def __init__(self) -> None:
        self._of_task: dict[Any, set[Key]] = {}
        self._silent_ms: dict[Key, int] = {}
        self._ended: set[Key] = set()

    def __bool__(self) -> bool:
        return bool(self._of_task)

    def assigned(self, key: Key) -> bool:
        """True if it is the first of its task."""
        inputs = self._of_task.setdefault(number_of(key[1]), set())
        inputs.add(key)
        self._ended.discard(key)
        return len(inputs) == 1

    def beside(self, key: Key) -> frozenset[Key]:
        """The inputs of the task of an input, itself among them if it is assigned."""
        return frozenset(self._of_task.get(number_of(key[1]), ()))

    def revoked(self, key: Key) -> bool:
        """True if it was the last of its task."""
        number = number_of(key[1])
        inputs = self._of_task.get(number, set())
        inputs.discard(key)
        if inputs:
            return False
        self._of_task.pop(number, None)
        return True

    def heard(self) -> None:
        """Rows have come: nobody is silent."""
        self._silent_ms.clear()

    def silent(self, key: Key, silent_ms: int) -> int | None:
        """How long the task of an input has been silent that has been for `silent_ms`; None while another one is not."""
        self._silent_ms[key] = silent_ms
        inputs = self._of_task.get(number_of(key[1]))
        if inputs is None or not inputs <= self._silent_ms.keys():
            return None
        return min(self._silent_ms[each] for each in inputs)

    def ended(self, key: Key, sources: int) -> tuple[int | None] | None:
        """The task that has ended with this input: its number, or None for the only task of a stream without partitions, whose
        `sources` must all have ended. None without a tuple: none has."""
        self._ended.add(key)
        number = number_of(key[1])
        inputs = self._of_task.get(number)
        if inputs is not None:
            return (number,) if inputs <= self._ended else None
        return (None,) if len(self._ended) >= sources else None
