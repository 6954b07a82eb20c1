"""What readers from outside see of a windowed stage: its tasks, the restores that run, and the moment of the next commit.

Owner: the island; `StageReads` (`store_reads.py`) calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamactors.engine.logic import Logic
from streamactors.windows.stage.keeper import Keeper
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.state.changelogs import StandbyCopy
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.topology.task_factory import TaskFactory


class ReadableLogic(Logic):
    """The base of WindowLogic that readers need."""

    factory: TaskFactory
    tasks: PartitionTasks
    _keeper: Keeper | None

    @property
    def serdes(self) -> Serdes:
        """The bytes of the keys."""
        return self.factory.serdes

    @property
    def readable_tasks(self) -> list[Any]:
        """The tasks of the partitions that are assigned now."""
        return list(self.tasks.tasks.values())

    @property
    def restoring(self) -> int:
        """Number of partitions whose state is being restored."""
        return 0 if self._keeper is None else self._keeper.restoring

    def when_committed(self, read: Callable[[], Callable[[], None]]) -> None:
        """See Keeper; the call happens at once if no state is kept."""
        if self._keeper is None:
            read()()
        else:
            self._keeper.when_committed(read)

    def read_copies(self, read: Callable[[Sequence[StandbyCopy] | None], None]) -> None:
        """Call `read` with the standby copies of other instances' tasks, None if there are none; any thread."""
        if self._keeper is None:
            read(None)
        else:
            self._keeper.read_copies(read)
