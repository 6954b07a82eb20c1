"""An actor system under a virtual clock, for windows in graphs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors.actors.system import ActorSystem
from streamactors.clock import VirtualClock
from streamactors.engine.island.run import runs_of


@pytest.fixture(scope="module")
def timeless() -> Iterator[ActorSystem]:
    """A system whose time stands still unless a test moves it."""
    with ActorSystem("windows", clock=VirtualClock()) as system:
        yield system
        system.clock.settle()  # type: ignore[attr-defined]
        assert not runs_of(system), "streams of the tests are still running"
