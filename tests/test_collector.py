"""When Python's garbage collector looks, and when it is kept away."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors import collector as collector_module
from streamactors.collector import THRESHOLDS, collecting_seldom, collector_paused
from streamactors.testing import TopologyDriver
from streamactors.windows.errors import RestoreError
from streamactors.windows.state.store_log import Change, TaskIdentity


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin and end with a collector that is on, with its usual thresholds."""
    monkeypatch.setattr(collector_module, "_are_frozen", False)
    before = gc.get_threshold()
    gc.enable()
    gc.set_threshold(700, 10, 10)
    gc.unfreeze()  # a command of streamactors that ran in this process has frozen all it had
    yield
    gc.set_threshold(*before)
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


def test_what_was_created_while_the_collector_rested_is_not_young() -> None:
    with collector_paused():
        created: list[object] = [[]]
    assert any(each is created for each in gc.get_objects(generation=2))


def test_what_the_user_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with collector_paused():
            created: list[object] = [[]]
        assert gc.get_freeze_count()
        assert not any(each is created for each in gc.get_objects(generation=2))
    finally:
        gc.unfreeze()


def test_frozen_objects_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # A process with 200,000 of them took 30 ms for each restore.
    count = Mock(return_value=200_000)
    monkeypatch.setattr(gc, "get_freeze_count", count)
    for _ in range(3):
        with collector_paused():
            pass
    count.assert_called_once()


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


def test_the_collector_looks_seldom_until_the_last_has_ended() -> None:
    one, two = collecting_seldom(), collecting_seldom()
    with one:
        two.__enter__()
    assert gc.get_threshold() == THRESHOLDS  # generators in one worker end in any order
    two.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize(
    ("users", "then"), [((0, 10, 10), (0, 10, 10)), ((90_000, 10, 60), (90_000, THRESHOLDS[1], 60))]
)
def test_thresholds_of_the_user_that_are_higher_stay(users: tuple[int, int, int], then: tuple[int, int, int]) -> None:
    gc.set_threshold(*users)
    with collecting_seldom():
        assert gc.get_threshold() == then
    assert gc.get_threshold() == users


def threshold(_: int) -> int:
    return gc.get_threshold()[0]


def test_a_worker_process_of_stages_collects_seldom(actor_system: ActorSystem) -> None:
    assert (
        Source.single(1).map_parallel(threshold, processes=1).run_with(Sink.head(), actor_system).result(60)
        == THRESHOLDS[0]
    )
