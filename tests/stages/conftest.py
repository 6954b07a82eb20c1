"""One actor system under a virtual clock for all laws of a file."""

from __future__ import annotations

import pytest

from streamactors.actors.system import ActorSystem
from streamactors.clock import VirtualClock
from streamactors.engine.island.run import runs_of


@pytest.fixture(scope="module")
def timeless():
    """A system whose time stands still unless a test moves it."""
    with ActorSystem("laws", clock=VirtualClock()) as system:
        yield system
        system.clock.settle()
        assert not runs_of(system), "streams of the tests are still running"
