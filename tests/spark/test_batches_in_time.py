"""When Spark's question for the next batch is answered: how long it waits, for what, and what it is told. Time is the test's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.spark.errors import SparkError
from streamactors.spark.sink import batches as module
from streamactors.spark.sink.batches import EMPTY_AFTER_S, FILL_S, LATEST_WAIT_S, PLAN_WAIT_S, SILENCE_S, MicroBatches

ROWS = 10


class Turns:
    """Stands for the clock and for the condition: a wait moves the time, and what is due by then happens in it."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.notified = False

    def monotonic(self) -> float:
        return self.now_s

    def after(self, delay_s: float, happens: Callable[[], None]) -> None:
        self.due.append((self.now_s + delay_s, happens))
        self.due.sort(key=lambda each: each[0])

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def notify_all(self) -> None:
        self.notified = True

    def wait(self, left_s: float) -> None:
        assert left_s > 0
        until, self.notified = self.now_s + left_s, False
        while self.due and self.due[0][0] <= until and not self.notified:
            self.now_s, happens = self.due.pop(0)
            happens()
        if not self.notified:
            self.now_s = until


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = Turns()
        monkeypatch.setattr(module, "time", self.turns)
        self.looks = 0
        self.acknowledged: list[Any] = []
        self.behind = 0  # another sink has done everything before this place
        self.others: list[tuple[Any, Callable[[], None]]] = []
        self.batches = MicroBatches(
            ROWS,
            1_000,
            changed=self._changed,
            acknowledged=self.acknowledged.append,
            others_behind=lambda mark: bool(self.behind) and mark["m"] > self.behind,
            when_others_done=lambda mark, then: self.others.append((mark, then)),
        )
        self.batches._condition = self.turns  # type: ignore[assignment]
        self.place = 0

    def _changed(self) -> None:
        self.looks += 1

    def rows(self, n: int) -> None:
        """These rows come, with a mark behind them."""
        self.place += max(n, 1)
        if n:
            self.batches.add(f"to {self.place}", n)
        self.batches.mark({"p": self.place}, {"m": self.place})  # type: ignore[dict-item]

    def ask(self, start: int = 0) -> tuple[Any, float]:
        """Return the answer to Spark's question, and how long it took."""
        began = self.turns.now_s
        answer = self.batches.latest({"p": start})
        return answer, pytest.approx(self.turns.now_s - began, abs=1e-9)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    assert made.batches.waiting
    made.batches.begin({"p": 0}, None)
    assert not made.batches.waiting
    return made


def test_a_question_waits_for_the_first_row_and_then_gives_up(world: World) -> None:
    assert world.ask() == (({"p": 0}, False), LATEST_WAIT_S)
    assert world.looks == 1


def test_a_full_batch_is_given_at_once_and_makes_room(world: World) -> None:
    world.rows(ROWS)
    assert world.batches.room() == 0
    assert world.ask() == (({"p": ROWS}, False), 0)
    assert (world.looks, world.batches.room()) == (2, ROWS)
    assert world.ask() == (({"p": ROWS}, False), 0), "the same batch again"
    assert world.looks == 3


def test_a_batch_that_is_not_full_is_given_after_a_silence(world: World) -> None:
    world.rows(3)
    for n in range(1, 4):
        world.turns.after(n * SILENCE_S * 0.9, lambda: world.rows(1))
    assert world.ask() == (({"p": 6}, False), 3 * SILENCE_S * 0.9 + SILENCE_S)


def test_rows_that_never_stop_are_given_after_a_time(world: World) -> None:
    world.batches._size.rows = 1_000
    world.rows(1)
    for n in range(1, 200):
        world.turns.after(n * 0.002, lambda: world.rows(1))
    (_, over), took = world.ask()
    assert (over, took) == (False, FILL_S)


def test_the_first_row_that_comes_in_the_wait_is_waited_for_company(world: World) -> None:
    world.turns.after(0.3, lambda: world.rows(2))
    world.turns.after(0.305, lambda: world.rows(2))
    assert world.ask() == (({"p": 4}, False), 0.305 + SILENCE_S)


def test_rows_without_a_mark_wait_for_it(world: World) -> None:
    world.batches.add("rows", 4)
    world.place = 3
    world.turns.after(0.1, lambda: world.rows(1))
    (end, _), _ = world.ask()
    assert end == {"p": 4}
    assert world.batches.snapshot()["given_rows"] == 5


def test_what_spark_has_acknowledged_is_counted_and_passed_on(world: World) -> None:
    world.rows(4)
    world.ask()
    world.turns.now_s += 0.25
    world.rows(6)
    assert world.ask(4) == (({"p": 10}, False), SILENCE_S)
    assert world.acknowledged == [{"m": 4}]
    shown = world.batches.snapshot()
    assert (shown["batches"], shown["rows"], shown["given_rows"], shown["checkpoint"]) == (1, 4, 6, {"p": 4})


def test_the_size_follows_the_time_of_the_batches_but_the_first(world: World) -> None:
    place = 0
    for seconds in (9.0, 2.0):
        world.rows(ROWS)
        world.ask(place)
        place += ROWS
        world.turns.now_s += seconds
    world.rows(1)
    world.ask(place)
    assert world.batches.snapshot()["batch_rows"] == 5, "ten rows took two seconds, and one second is wanted"


def test_a_batch_ends_where_another_sink_stands_and_waits_for_it(world: World) -> None:
    world.rows(4)
    world.rows(6)
    world.behind = 4
    assert world.ask() == (({"p": 4}, False), 0)
    world.turns.after(0.2, lambda: (setattr(world, "behind", 0), world.others[0][1]())[0])  # type: ignore[func-returns-value]
    assert world.ask(4) == (({"p": 10}, False), 0.2)
    assert [mark for mark, _ in world.others] == [{"m": 10}], "asked once"


def test_a_sink_that_is_behind_gets_more_elements_than_a_batch_has(world: World) -> None:
    world.rows(ROWS)
    world.behind = 1
    assert world.batches.room() == 0
    assert world.ask() == (({"p": 0}, False), LATEST_WAIT_S)
    assert world.batches.room() == ROWS, "as many again"
    assert world.looks == 2
    world.behind = 0
    world.others[0][1]()
    world.ask()
    world.batches.latest({"p": ROWS})
    assert world.batches.room() == ROWS, "and no more afterwards"


def test_another_sink_that_is_done_at_once_is_not_waited_for(world: World) -> None:
    world.rows(ROWS)
    world.behind = 1

    def at_once(mark: Any, then: Callable[[], None]) -> None:
        world.behind = 0
        then()

    world.batches._when_others_done = at_once
    assert world.ask() == (({"p": ROWS}, False), 0)


def test_a_range_without_rows_is_given_after_a_long_time(world: World) -> None:
    world.rows(0)
    assert world.ask() == (({"p": 0}, False), LATEST_WAIT_S)
    world.turns.now_s += EMPTY_AFTER_S - LATEST_WAIT_S
    world.turns.now_s -= 0.1
    assert world.ask() == (({"p": 1}, False), LATEST_WAIT_S), "nothing wakes the question before"
    assert world.ask() == (({"p": 1}, False), 0)


def test_rows_in_front_of_an_empty_range_begin_its_time_anew(world: World) -> None:
    world.rows(0)
    world.ask()
    world.turns.now_s += EMPTY_AFTER_S + 1
    world.rows(2)
    assert world.ask()[0] == ({"p": 3}, False)
    world.rows(0)
    assert world.ask(3) == (({"p": 3}, False), LATEST_WAIT_S)


def test_the_end_of_the_input_is_told_when_spark_has_everything(world: World) -> None:
    world.rows(2)
    world.batches.end_of_input()
    assert world.batches.room() == 0
    assert world.ask() == (({"p": 2}, False), 0)
    assert world.ask(2) == (({"p": 2}, True), 0)
    assert world.batches.snapshot()["phase"] == "over"


def test_an_empty_range_is_given_at_once_at_the_end_of_the_input(world: World) -> None:
    world.rows(0)
    world.batches.end_of_input()
    assert world.ask() == (({"p": 1}, False), 0)


def test_a_stream_that_fails_ends_the_question(world: World) -> None:
    world.turns.after(0.1, lambda: world.batches.fail(ValueError("broken")))
    with pytest.raises(SparkError, match="the stream has failed: ValueError: broken"):
        world.ask()
    with pytest.raises(SparkError, match="broken"):
        world.batches.batch({"p": 0}, {"p": 1})


def test_a_batch_is_given_with_its_rows(world: World) -> None:
    world.rows(4)
    world.ask()
    assert world.batches.batch({"p": 0}, {"p": 4}) == (4, ["to 4"])
    assert world.batches.batch({"p": 4}, {"p": 4}) == (0, [])


@pytest.mark.parametrize("after_s", [0.0, PLAN_WAIT_S - 0.1, PLAN_WAIT_S + 0.1])
def test_a_batch_that_is_repeated_is_waited_for(monkeypatch: pytest.MonkeyPatch, after_s: float) -> None:
    world = World(monkeypatch)
    world.batches.begin({"p": 0}, {"p": 4})
    world.turns.after(after_s, lambda: world.rows(4))
    found = world.batches.batch({"p": 0}, {"p": 4})
    assert found == ((4, ["to 4"]) if after_s < PLAN_WAIT_S else None)
    if found:
        assert world.turns.now_s == pytest.approx(50.0 + after_s)
        assert world.batches._given_at == world.turns.now_s


def test_the_shares_of_a_snapshot(world: World) -> None:
    world.rows(4)
    world.ask()
    world.rows(3)
    world.batches.add("more", 2)
    shown = world.batches.snapshot()
    assert {name: shown[name] for name in ("phase", "given_rows", "gathered_rows", "retained_rows", "batch_rows")} == {
        "phase": "giving",
        "given_rows": 4,
        "gathered_rows": 5,
        "retained_rows": 9,
        "batch_rows": ROWS,
    }
