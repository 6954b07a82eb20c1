"""What faults may do to the instances of a pipeline. Owner: the face, which implements it."""

from __future__ import annotations

from typing import Protocol


class Deployment(Protocol):
    """The instances of a run, by their names."""

    def instances(self) -> list[str]:
        """Return the names of the instances that have not left."""
        ...

    def is_running(self, name: str) -> bool:
        """Return whether an instance runs, paused or not."""
        ...

    def crash(self, name: str, *, torn: bool = False) -> None:
        """Kill an instance. Does not return in a task of it."""
        ...

    def restart(self, name: str) -> None:
        """Start an instance that is down."""
        ...

    def pause(self, name: str) -> None:
        """Let an instance not run until `resume`."""
        ...

    def resume(self, name: str) -> None:
        """Let a paused instance run."""
        ...

    def lose_disk(self, name: str) -> None:
        """Crash an instance and empty its disk."""
        ...

    def shift_clock(self, name: str, ms: float) -> None:
        """Move the wall clock of an instance."""
        ...

    def join(self) -> str:
        """Start one more instance; return its name."""
        ...

    def leave(self, name: str) -> None:
        """Ask an instance to end and wait until it has."""
        ...
