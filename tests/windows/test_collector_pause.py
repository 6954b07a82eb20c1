"""The pause of the garbage collector while a state is restored."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from streamactors.testing import TopologyDriver
from streamactors.windows.errors import RestoreError
from streamactors.windows.state.collector_pause import collector_paused
from streamactors.windows.state.store_log import Change, TaskIdentity


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Begin and end with a collector that is on."""
    gc.enable()
    yield
    gc.enable()


def test_the_collector_rests_until_the_last_restore_has_ended() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_the_user_has_switched_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_a_restore_rests_the_collector_and_a_failed_one_wakes_it() -> None:
    driver = TopologyDriver(lambda topics: topics.table("people", name="people"))
    driver.pipe("people", "ada", "Ada", timestamp=1)
    seen: list[bool] = []

    def changes(damaged: bool) -> Iterator[Change]:
        for change in list(given):
            seen.append(gc.isenabled())
            yield change._replace(value=b"\xc1") if damaged else change

    given = driver.changes()
    driver._factory.restored(TaskIdentity("test"), changes(damaged=False))
    assert seen == [False, False]  # the metadata and one entry
    with pytest.raises(RestoreError):
        driver._factory.restored(TaskIdentity("test"), changes(damaged=True))
    assert gc.isenabled()
