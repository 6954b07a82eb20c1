"""The pool of a world: each turn of a cell is a task of its own, and dice decide which cell is next.

Owner: an actor system in the world. A turn that blocks keeps only its own task, so the pool needs no watch that adds threads. Turns use the idents
0, 1, … of the pool: as many as there are turns that block at the same time, as a real pool has threads."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from streamactors.actors.cell import Cell
from streamactors.actors.pool.elastic_pool import ElasticPool, PoolStopped
from streamactors.actors.threads import add_current_thread, remove_current_thread
from streamactors.clock import Clock
from streamactors.simulation.world.here import here
from streamactors.simulation.world.scheduler import Scheduler


class WorldPool(ElasticPool):
    """An `ElasticPool` of a world; outside the world, a real one."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        if here() is None:
            return ElasticPool(*arguments, **named)
        return super().__new__(cls)

    def __init__(self, name: str, clock: Clock | None = None, *, max_threads: int = 256) -> None:
        super().__init__(name, clock, max_threads=max_threads)
        scheduler = here()
        assert scheduler is not None
        self._scheduler: Scheduler = scheduler
        self._waiting: dict[Cell, None] = {}
        self._running: dict[int, Cell] = {}
        self._free: list[int] = []
        self._first = scheduler.idents(max_threads)

    def submit(self, cell: Cell) -> None:
        """Queue a cell for a turn. Raises PoolStopped after `stop`."""
        if self._stopping:
            raise PoolStopped(f"pool {self.name!r} {self._why_stopped}")
        self._waiting[cell] = None
        self._scheduler.spawn(lambda: self._turn(cell), cell.name)

    def _turn(self, cell: Cell) -> None:
        if self._stopping or cell not in self._waiting:
            return
        scheduler = self._scheduler
        task = scheduler.current
        assert task is not None
        if not self._free and len(self._running) >= self.max_threads:
            scheduler.wait(lambda: bool(self._free), None, "a thread of the pool")
        task.ident = ident = heappop(self._free) if self._free else self._first + len(self._running)
        del self._waiting[cell]
        self._running[ident] = cell
        add_current_thread(self.name)
        self._taken += 1
        try:
            if cell.run_turn():
                self._leave_to(cell)
        finally:
            remove_current_thread()
            del self._running[ident]
            heappush(self._free, ident)

    def _leave_to(self, cell: Cell) -> None:
        try:
            cell.resubmit()
        except PoolStopped:
            self._waiting[cell] = None

    def in_thread(self) -> bool:
        """Whether the caller is in a turn of the pool."""
        task = self._scheduler.current
        return task is not None and task.ident in self._running

    @property
    def threads(self) -> int:
        """Turns that run or block now."""
        return len(self._running)

    @property
    def cells_waiting(self) -> int:
        """Number of cells that wait for a turn."""
        return len(self._waiting)

    @property
    def at_rest(self) -> bool:
        """True when no cell waits or runs."""
        return not self._waiting and not self._running

    def cpu_used_s(self) -> float:
        """In a world no turn takes time."""
        return 0.0

    def add_workers(self, count: int) -> None:
        """Every waiting cell has its task already."""

    def stop(self, timeout: float = 1.0) -> list[str]:
        """Wait until no turn runs, at most `timeout` seconds; return the names of the cells whose turn does not end."""
        self._stopping = True
        scheduler = self._scheduler
        mine = scheduler.current.ident if scheduler.current is not None else None
        if here() is scheduler and not scheduler.ending and scheduler.current is not None:
            scheduler.wait(
                lambda: not (self._running.keys() - {mine}),
                scheduler.now_us + int(timeout * 1e6),
                f"turns of {self.name}",
            )
        if self._virtual is not None:
            self._virtual.detach(self)
        return [cell.name for ident, cell in self._running.items() if ident != mine]

    def abandoned(self) -> list[Cell]:
        """Return, after `stop`, the cells that waited for a turn and will get none."""
        return list(self._waiting)
