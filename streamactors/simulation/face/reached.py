"""The ready names of `sometimes`: what a run may reach by its faults, and what the trace tells of it. Owner: the checks."""

from __future__ import annotations

from typing import Any, Final

from streamactors.simulation.world.events import Event

READY: Final = {
    "an instance crashed": "an instance was killed",
    "an instance was paused": "an instance did not run for a while",
    "an instance failed": "an instance ended with an error",
    "an effect failed": "a call of a store outside failed, before or after its effect",
    "an effect was repeated": "a store outside was written twice for one key",
    "a commit was refused": "the group did not take an offset",
    "rebalanced": "partitions were taken from a member",
    "rebalanced with records in flight": "partitions were taken while an effect was done whose offset was not committed",
    "crashed with records in flight": "an instance was killed while an effect was done whose offset was not committed",
}
"""name -> what it means."""


class Reached:
    """What the events of one run have reached."""

    def __init__(self) -> None:
        self._in_flight: set[tuple[str, int, int]] = set()
        self._keys: set[tuple[Any, str]] = set()

    def names(self, event: Event) -> list[str]:
        """Return the names that an event reaches."""
        kind, facts = event.kind, event.facts
        if kind == "effect":
            return self._of_effect(facts)
        if kind == "commit":
            where, offset = (facts["topic"], facts["partition"]), facts["offset"]
            self._in_flight = {each for each in self._in_flight if each[:2] != where or each[2] >= offset}  # type: ignore[operator]
        flight = bool(self._in_flight)
        if kind == "crash":
            return ["an instance crashed", *(["crashed with records in flight"] if flight else [])]
        if kind in ("revoked", "lost"):
            return ["rebalanced", *(["rebalanced with records in flight"] if flight else [])]
        if kind == "pause":
            return ["an instance was paused"]
        if kind == "commit refused":
            return ["a commit was refused"]
        return ["an instance failed"] if kind == "stopped" and facts["error"] is not None else []

    def _of_effect(self, facts: Any) -> list[str]:
        found = [] if facts["outcome"] == "done" else ["an effect failed"]
        if facts["outcome"] != "failed before":
            which = (facts["store"], repr(facts["key"]))
            if which in self._keys:
                found.append("an effect was repeated")
            self._keys.add(which)
            if facts["record"] is not None:
                self._in_flight.add(tuple(facts["record"]))
        return found
