"""The executors of the cluster that runs a query, as Spark's driver knows them; `driver` is one of them where the driver works itself, as in local mode.

Owner: the caller, on a thread that may wait for the JVM. Each figure is one call into it, so the executors are bounded."""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 50


def executors_of(query: Any) -> list[dict[str, Any]]:
    """Return a row for each executor of a PySpark StreamingQuery; nothing where the driver is in no JVM of this process, as with Spark Connect."""
    java = getattr(query, "_jsq", None)
    if java is None:
        return []
    found = java.sparkSession().sparkContext().statusStore().executorList(True)
    return [_row(found.apply(n)) for n in range(min(found.size(), MOST))]


def _row(executor: Any) -> dict[str, Any]:
    return {
        "id": str(executor.id()),
        "state": "active" if executor.isActive() else "lost",
        "address": str(executor.hostPort()),
        "cores": int(executor.totalCores()),
        "tasks": int(executor.activeTasks()),
        "done": int(executor.completedTasks()),
        "failed": int(executor.failedTasks()),
        "memory_bytes": int(executor.memoryUsed()),
        "memory_total_bytes": int(executor.maxMemory()),
    }
