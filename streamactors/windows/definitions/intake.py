"""How the tasks of a stage read their inputs, and whether they keep changelogs."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.durations import Duration, whole_ms
from streamactors.errors import BuildError


@dataclass(frozen=True, slots=True)
class Intake:
    """`changelog`: keep one if the source offers it. `max_task_idle_ms`: Kafka's max.task.idle.ms, how long a task of several
    topics waits for a topic without rows after the broker has reported its end. None: no wait at all (Kafka: -1)."""

    changelog: bool = True
    max_task_idle_ms: int | None = 0


def intake(where: str, changelog: object, max_task_idle: Duration | None) -> Intake:
    """Check the parameters of group_by_key, key_by or to_table."""
    if not isinstance(changelog, bool):
        raise BuildError(f"{where}: changelog is {changelog!r}; give True or False")
    idle_ms = None if max_task_idle is None else whole_ms(max_task_idle, f"{where}: max_task_idle")
    return Intake(changelog, idle_ms)
