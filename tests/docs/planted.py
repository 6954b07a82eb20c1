"""Operators that somebody has begun to write: test_operators_are_whole.py looks for what they lack."""

from __future__ import annotations

from typing import Any

from streamactors.dsl.operators.base import Ops
from streamactors.dsl.typevars import Mat, Out


class PlantedOps(Ops[Out, Mat]):
    """Operators of no stream."""

    __slots__ = ()

    def plant_bare(self) -> Ops[Out, Mat]:
        """Do something, as long as nobody asks what."""
        from streamactors.stages.transform.planting import Planting  # type: ignore[import-not-found]

        return self._via(Planting())

    def plant_half(self) -> Ops[Out, Mat]:
        """Pass every element.

        Emits when: upstream does.                    Backpressures when: downstream does.
        """
        from streamactors.stages.bases.passing import Identity

        return self._via(Identity())

    def plant_whole(self) -> Ops[Any, Mat]:
        """Pass every element.

        Emits when: upstream does.                    Backpressures when: downstream does.
        Completes when: upstream completes.           Cancels when: downstream cancels.

        Example:
            a -1-2|
            a.plant_whole()
        """
        from streamactors.stages.bases.passing import Identity

        return self._via(Identity())
