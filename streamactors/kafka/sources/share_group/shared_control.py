"""SharedControl: the control of a shared source."""

from __future__ import annotations

from typing import NoReturn

from streamactors.errors import BuildError
from streamactors.kafka.controls.control import Control


class SharedControl(Control):
    """Stops a shared source and shows its state. A queue has no end, and no partitions of its own: `stop_at_end`, `pause` and `resume` are refused."""

    def stop_at_end(self) -> NoReturn:
        """Refused: other members read the same partitions, so no member knows their end."""
        raise BuildError("a shared source has no end: other members read the same partitions; call stop()")

    def pause(self, *partitions: tuple[str, int]) -> NoReturn:
        """Refused."""
        raise BuildError("a shared source has no partitions to pause; without demand downstream it fetches nothing")

    def resume(self, *partitions: tuple[str, int]) -> NoReturn:
        """Refused."""
        raise BuildError("a shared source has no partitions to resume")
