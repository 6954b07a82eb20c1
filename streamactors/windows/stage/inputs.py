"""The inputs of each task, from the signals in the stream: which are assigned, which are silent, which have ended.

The inputs of a task are the partitions of one number in all topics that are read together. A task begins with its first input and ends
with its last one. Its silence is the shortest silence of its inputs. It has ended when all its inputs have ended.

Owner: the windowed stage; pure."""

from __future__ import annotations

from typing import Any

from streamactors.engine.marks.marks import Key
from streamactors.windows.operators.task_ids import TaskIds


class Inputs:
    """The inputs of one stage, by task; false while no input is assigned. A key names an input, as in marks: (source, partition)."""

    def __init__(self, ids: TaskIds) -> None:
        self._task_of = ids.of_input
        self._of_task: dict[Any, set[Key]] = {}
        self._silent_ms: dict[Key, int] = {}
        self._ended: set[Key] = set()

    def __bool__(self) -> bool:
        return bool(self._of_task)

    def assigned(self, key: Key) -> bool:
        """An input was assigned. Return True if it is the first of its task."""
        inputs = self._of_task.setdefault(self._task_of(key[1]), set())
        inputs.add(key)
        self._ended.discard(key)
        return len(inputs) == 1

    def of(self, task: Any) -> frozenset[Key]:
        """Return the assigned inputs of a task."""
        return frozenset(self._of_task.get(task, ()))

    def beside(self, key: Key) -> frozenset[Key]:
        """Return the assigned inputs of the task that an input belongs to."""
        return self.of(self._task_of(key[1]))

    def revoked(self, key: Key) -> bool:
        """An input was revoked. Return True if it was the last of its task."""
        number = self._task_of(key[1])
        inputs = self._of_task.get(number, set())
        inputs.discard(key)
        if inputs:
            return False
        self._of_task.pop(number, None)
        return True

    def heard(self) -> None:
        """Rows have come: no input is silent."""
        self._silent_ms.clear()

    def silent(self, key: Key, silent_ms: int) -> int | None:
        """An input has been silent for `silent_ms`. Return how long its task has been silent; None while another input of the task is not."""
        self._silent_ms[key] = silent_ms
        inputs = self._of_task.get(self._task_of(key[1]))
        if inputs is None or not inputs <= self._silent_ms.keys():
            return None
        return min(self._silent_ms[each] for each in inputs)

    def ended(self, key: Key, sources: int) -> tuple[Any] | None:
        """An input has ended. Return a tuple of the task that has ended with it; None if no task has.

        The tuple has the task's name, or None for the only task of a stream without partitions, which ends when all its `sources` have."""
        self._ended.add(key)
        number = self._task_of(key[1])
        inputs = self._of_task.get(number)
        if inputs is not None:
            return (number,) if inputs <= self._ended else None
        return (None,) if len(self._ended) >= sources else None
