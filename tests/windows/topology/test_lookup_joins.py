"""join_lookup: a function asked once per key, its cache, its errors, and the order of the rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import Sink, Source, Topics
from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import Record, RecordContext
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.joins.asking import Asking
from streamactors.windows.stage.window_logic import WindowLogic
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics


class Registry:
    """People by key, and the keys that were asked for."""

    def __init__(self, **people: Any) -> None:
        self.people = people
        self.asked: list[Any] = []

    def __call__(self, key: Any) -> Any:
        self.asked.append(key)
        found = self.people.get(key)
        if isinstance(found, Exception):
            raise found
        return found


def driver(fn: Callable[[Any], Any], on_failure: Any = None, **options: Any) -> TopologyDriver:
    return TopologyDriver(lambda topics: topics.stream("orders").join_lookup(fn, **options), on_failure=on_failure)


def records(*keys: Any) -> list[Record]:
    return [Record(key, f"o{at}", at, RecordContext("orders", 0, at)) for at, key in enumerate(keys)]


def plain(outputs: list[Any]) -> list[tuple[Any, Any, int]]:
    return [(each.record.key, each.record.value, each.record.timestamp) for each in outputs]


def test_each_key_is_asked_for_once_and_rows_keep_their_order() -> None:
    registry = Registry(ada="Ada", bob="Bob")
    orders = driver(registry, how="left", max_concurrency=1)
    assert plain(orders.pipe_all(records("ada", "bob", "ada", "eve", "bob"))) == [
        ("ada", ("o0", "Ada"), 0),
        ("bob", ("o1", "Bob"), 1),
        ("ada", ("o2", "Ada"), 2),
        ("eve", ("o3", None), 3),
        ("bob", ("o4", "Bob"), 4),
    ]
    assert registry.asked == ["ada", "bob", "eve"]
    assert plain(orders.pipe("orders", "eve", "late", 9)) == [("eve", ("late", None), 9)]
    assert registry.asked == ["ada", "bob", "eve"]  # that the registry does not know eve is known


def test_an_inner_join_leaves_out_what_the_function_does_not_know() -> None:
    registry = Registry(ada="Ada")
    orders = driver(registry, joiner=lambda order, person: f"{order}/{person}")
    assert plain(orders.pipe_all(records("ada", "eve", None))) == [("ada", "o0/Ada", 0)]
    assert orders.pipe("orders", "ada", None, 5) == []
    assert orders.dropped == 2
    assert registry.asked == ["ada", "eve"] or registry.asked == ["eve", "ada"]


def test_a_left_join_asks_nobody_for_a_row_without_key() -> None:
    registry = Registry()
    orders = driver(registry, how="left")
    assert plain(orders.pipe("orders", None, "o", 1)) == [(None, ("o", None), 1)]
    assert registry.asked == []


def test_the_key_function_names_what_is_asked_for_and_the_key_stays() -> None:
    registry = Registry(tea="a leaf")
    orders = driver(registry, key=lambda record: record.value)
    assert plain(orders.pipe("orders", 7, "tea", 1)) == [(7, ("tea", "a leaf"), 1)]


def test_answers_are_asked_for_again_when_their_time_is_over() -> None:
    registry = Registry(ada="Ada")
    orders = driver(registry, how="left", ttl="1m", missing_ttl="10s")
    for key in ("ada", "eve"):
        orders.pipe("orders", key, "o", 1)
    registry.people |= {"ada": "Ada L.", "eve": "Eve"}
    orders.advance_wall_clock("9999ms")
    assert [plain(orders.pipe("orders", key, "o", 1))[0][1][1] for key in ("ada", "eve")] == ["Ada", None]
    orders.advance_wall_clock("1ms")
    assert [plain(orders.pipe("orders", key, "o", 1))[0][1][1] for key in ("ada", "eve")] == ["Ada", "Eve"]
    orders.advance_wall_clock("50s")
    assert [plain(orders.pipe("orders", key, "o", 1))[0][1][1] for key in ("ada", "eve")] == ["Ada L.", "Eve"]
    assert registry.asked == ["ada", "eve", "eve", "ada"]


def test_the_cache_forgets_the_key_that_was_used_least_recently() -> None:
    registry = Registry(a=1, b=2, c=3)
    orders = driver(registry, max_entries=2)
    for key in "abaca":
        orders.pipe("orders", key, "o", 1)
    assert registry.asked == ["a", "b", "c"]
    orders.pipe("orders", "b", "o", 1)
    assert registry.asked == ["a", "b", "c", "b"]


def test_a_chunk_with_more_keys_than_the_cache_has_room_for_is_answered_whole() -> None:
    registry = Registry(a=1, b=2, c=3)
    orders = driver(registry, max_entries=1)
    assert [each[1][1] for each in plain(orders.pipe_all(records("a", "b", "c", "a")))] == [1, 2, 3, 1]
    assert sorted(registry.asked) == ["a", "b", "c"]


def test_an_error_names_step_and_key_and_the_rows_before_it_are_out() -> None:
    registry = Registry(ada="Ada", bob=ConnectionError("no route"))
    orders = driver(registry, name="who")
    out: list[Any] = []
    with pytest.raises(
        OperatorFailed, match=r"who: the lookup of key 'bob' raised ConnectionError: no route"
    ) as failure:
        orders._task.process_into(records("ada", "bob", "ada"), out)
    assert plain(out) == [("ada", ("o0", "Ada"), 0)]
    assert failure.value.key == "bob"


def test_a_skipped_error_is_not_kept() -> None:
    registry = Registry(bob=ConnectionError("no route"))
    failures: list[Any] = []
    orders = driver(registry, on_failure=lambda failure: failures.append(failure.key) or True)
    assert orders.pipe_all(records("bob", "bob")) == []
    assert failures == ["bob", "bob"]
    registry.people["bob"] = "Bob"
    assert plain(orders.pipe("orders", "bob", "o", 1)) == [("bob", ("o", "Bob"), 1)]
    assert registry.asked == ["bob", "bob"]


@pytest.mark.parametrize("kind", ["plain", "coroutine", "future"])
def test_keys_are_asked_for_at_the_same_time_up_to_the_limit(kind: str) -> None:
    running, most, lock = 0, 0, threading.Lock()
    full = threading.Barrier(3)
    gate = asyncio.Event()

    def plain_function(key: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait(30)  # three calls must be under way, or this fails
        with lock:
            running -= 1
        return key

    async def coroutine(key: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            gate.set()
        await asyncio.wait_for(gate.wait(), 30)
        running -= 1
        return key

    fn: Any = {"plain": plain_function, "coroutine": coroutine, "future": lambda key: coroutine(key)}[kind]
    orders = driver(fn, max_concurrency=3)
    assert [each[1][1] for each in plain(orders.pipe_all(records(*"abcabc")))] == list("abcabc")
    assert most == 3


def test_rows_that_go_one_by_one_are_asked_for_together_behind_their_topic() -> None:
    full = threading.Barrier(2)

    def wait_for_the_other(key: Any) -> Any:
        full.wait(30)  # a call that is alone fails
        return key

    def build(topics: Any) -> Any:
        found = topics.stream("orders").join_lookup(wait_for_the_other)
        return found.merge(found.map_values(str))  # rows reach the end by two ways, so each goes alone

    orders = TopologyDriver(build)
    assert [each.record.key for each in orders.pipe_all(records("a", "b"))] == ["a", "a", "b", "b"]


def test_a_graph_asks_on_the_loop_of_its_actor_system_and_gives_its_rows_in_order() -> None:
    loops: set[Any] = set()

    async def ask(key: Any) -> Any:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return key * 2

    orders = Source.from_iterable([Record(f"k{at % 7}", at, at) for at in range(300)])
    topics = Topics.in_memory({"orders": orders})
    found = topics.stream("orders").join_lookup(ask, max_concurrency=4)
    rows = topics.source(found).run_with(Sink.to_list()).result(timeout=30)
    assert [row.value for row in rows] == [(at, f"k{at % 7}" * 2) for at in range(300)]
    assert len(loops) == 1


@pytest.mark.parametrize(("lookup", "rows"), [(True, 32), (False, 1)])
def test_a_stage_with_slow_calls_gets_single_rows_unless_it_asks_for_many_at_once(lookup: bool, rows: int) -> None:
    topics = TopologyTopics()
    orders = topics.stream("orders")
    (orders.join_lookup(str, max_concurrency=8) if lookup else orders).to("out")
    logic = WindowLogic(TaskFactory(topics.topology))
    logic.outlets = [SimpleNamespace(asked=1_000)]  # type: ignore[list-item]
    logic._pace = SimpleNamespace(limit=1)  # type: ignore[assignment] # what Pace allows while calls are slow
    assert logic.room == rows


def test_wrong_parameters_are_refused() -> None:
    for options, text in [
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_entries": -1}, "max_entries"),
        ({"ttl": "soon"}, "ttl"),
        ({"how": "outer"}, "how"),
        ({"joiner": 3}, "joiner"),
    ]:
        with pytest.raises(BuildError, match=text):
            driver(Registry(), **options)
    with pytest.raises(BuildError, match="not callable"):
        driver("registry")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("error")
def test_the_loop_of_coroutines_is_closed_where_the_collector_runs_beside_another_loop() -> None:
    loops = []

    async def asked(key: str) -> str:
        loops.append(asyncio.get_running_loop())
        return key

    asking = Asking(asked, 2, None)
    assert asking.ask(["a", "b"]) == [("a", None), ("b", None)]

    async def drop() -> None:
        nonlocal asking
        del asking

    asyncio.run(drop())
    assert loops[0].is_closed()


def test_closing_waits_for_no_call_that_is_still_on_its_way() -> None:
    answer, called = threading.Event(), threading.Semaphore(0)

    def waiting(_: str) -> bool:
        called.release()
        return answer.wait()

    asking = Asking(waiting, 2, None)
    rows = threading.Thread(target=asking.ask, args=(["a", "b"],))
    rows.start()
    try:
        for _ in range(2):
            assert called.acquire(timeout=30)
        closing = threading.Thread(target=asking.close)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()
    finally:
        answer.set()
        rows.join()
