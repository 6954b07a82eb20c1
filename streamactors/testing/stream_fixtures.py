"""Fixtures for tests of streams and actors: virtual_clock, actor_system. Imports happen when a test uses a fixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.clock import VirtualClock


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that moves only by `virtual_clock.advance("1h")`. A test that uses it gives its `actor_system` that clock, too."""
    from streamactors.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def actor_system(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    """An actor system for one test, shut down after it; it uses the virtual clock if the test uses `virtual_clock`."""
    from streamactors.actors.system import ActorSystem

    clock = request.getfixturevalue("virtual_clock") if "virtual_clock" in request.fixturenames else None
    with ActorSystem(request.node.name, clock=clock) as system:
        yield system
