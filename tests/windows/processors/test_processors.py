"""Processors: what they see, what they forward, when they are called by time, and what a restart finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.errors import BuildError, StreamError
from streamactors.testing import TopologyDriver
from streamactors.windows import (
    KeyValueStore,
    OperatorFailed,
    ProcessorContext,
    Record,
    SessionStore,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.errors import RestoreError
from tests.windows.processors.recording import Recording, driver_of, plain


def test_T_80_a_processor_sees_every_row_and_forwards_any_number_with_any_key_and_time() -> None:
    def process(context: ProcessorContext, record: Record) -> None:
        for n in range(record.value or 0):
            context.forward(Record(n, record.key, record.timestamp - n))

    driver = driver_of(process=process)
    assert plain(driver.pipe("in", "a", 2, 5)) == [(0, "a", 5), (1, "a", 4)]
    assert driver.pipe("in", "a", None, 6) == []
    assert plain(driver.pipe("in", None, 1, 7)) == [(0, None, 7)]


def test_T_80_an_exception_names_the_processor_and_the_row_and_the_row_is_not_done() -> None:
    driver = driver_of(process=lambda c, r: c.forward(r) or 1 / 0)
    out: list[Any] = []
    with pytest.raises(OperatorFailed, match=r"p: process of key 'a' raised ZeroDivisionError"):
        driver.pipe_into("in", "a", 1, 5, out)


def test_T_81_stream_time_includes_the_row_and_the_wall_clock_stands_still_within_a_call() -> None:
    seen: list[tuple[int, int]] = []
    driver = driver_of(process=lambda c, r: seen.append((c.stream_time, c.wall_clock)))
    driver.pipe("in", "a", 1, 50)
    driver.advance_wall_clock("7ms")
    driver.pipe("in", "a", 1, 20)
    assert seen == [(50, 0), (50, 7)]


def test_T_2_stream_time_is_that_of_all_topics_of_the_task_also_of_filtered_rows_but_not_behind_a_repartition() -> None:
    before: list[int] = []
    behind: list[int] = []

    def build(topics: Any) -> Any:
        rows = topics.stream("in").filter(lambda record: record.value > 0)
        merged = rows.merge(topics.stream("other").filter(lambda record: False))
        kept = merged.process_values(
            lambda: Recording(process=lambda c, r: before.append(c.stream_time) or c.forward(r))
        )
        return kept.repartition(name="again").process(
            lambda: Recording(process=lambda c, r: behind.append(c.stream_time))
        )

    driver = TopologyDriver(build)
    driver.pipe("in", "a", 1, 5)
    driver.pipe("in", "a", 0, 60)
    driver.pipe("other", "a", 0, 90)
    driver.pipe("in", "a", 1, 7)
    assert before == [5, 90]
    assert behind == [5, 7]


def test_a_record_is_forwarded_to_the_step_that_is_named() -> None:
    def build(topics: Any) -> None:
        split = topics.stream("in").process(
            lambda: Recording(process=lambda c, r: c.forward(r, to="evens" if r.value % 2 == 0 else "odds"))
        )
        split.map_values(lambda value: value, name="evens").to("even")
        split.map_values(lambda value: -value, name="odds").to("odd")

    driver = TopologyDriver(build)
    outputs = [(each.topic, each.record.value) for n in range(3) for each in driver.pipe("in", "a", n, n)]
    assert outputs == [("even", 0), ("odd", -1), ("even", 2)]


def test_a_step_that_is_not_there_and_a_forward_from_outside_are_refused() -> None:
    kept: list[ProcessorContext] = []
    driver = driver_of(init=kept.append, process=lambda c, r: c.forward(r, to="nowhere"))
    with pytest.raises(OperatorFailed, match=r"there is no step 'nowhere' downstream of it; there are \['sink-"):
        driver.pipe("in", "a", 1, 1)
    with pytest.raises(StreamError, match="forward outside of init, process"):
        kept[0].forward(Record("a", 1, 1))


def test_a_forwarded_record_has_passed_the_steps_behind_before_forward_returns() -> None:
    counts: list[Any] = []

    def build(topics: Any) -> Any:
        def process(context: ProcessorContext, record: Record) -> None:
            context.forward(record)
            counts.append(store["store"].get("a"))

        store: dict[str, Any] = {}
        first = topics.stream("in").process_values(lambda: Recording(process=process))
        return first.process_values(
            lambda: Recording(
                init=lambda c: store.update(store=c.store("seen")),
                process=lambda c, r: c.store("seen").put(r.key, r.value),
            ),
            stores=[KeyValueStore("seen")],
        )

    driver = TopologyDriver(build)
    driver.pipe("in", "a", 1, 1)
    driver.pipe("in", "a", 2, 2)
    assert counts == [1, 2]


def test_T_82_process_values_cannot_change_the_key() -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("in").process_values(
            lambda: Recording(process=lambda c, r: c.forward(r.replace(key="other")))
        )
    )
    with pytest.raises(OperatorFailed, match="keeps the key 'a', and the record has 'other'; use process"):
        driver.pipe("in", "a", 1, 1)


def test_T_70_only_process_may_change_keys_so_only_it_costs_a_repartition_topic() -> None:
    def topics_of(step: str) -> set[str]:
        built: list[Any] = []

        def build(topics: Any) -> None:
            built.append(topics)
            getattr(topics.stream("in"), step)(Recording).group_by_key().count(name="n")

        TopologyDriver(build)
        return set(built[0].topology.sources)

    assert topics_of("process") == {"in", "n-repartition"}
    assert topics_of("process_values") == {"in"}


# ── stores by name, functions with state ─────────────────────────────────────────────────────────────────────────────


def test_a_processor_reads_the_store_of_another_and_of_a_table() -> None:
    seen: list[Any] = []

    def build(topics: Any) -> Any:
        topics.table("people", name="people")
        first = topics.stream("in").process_values(
            lambda: Recording(process=lambda c, r: c.store("n").put(r.key, r.value) or c.forward(r)),
            stores=[KeyValueStore("n")],
        )
        return first.process_values(
            lambda: Recording(process=lambda c, r: seen.append((c.store("n").get("a"), c.store("people").get("a")))),
            stores=["n", "people"],
        )

    driver = TopologyDriver(build)
    driver.pipe("people", "a", "ada", 3)
    driver.pipe("in", "a", 1, 5)
    assert seen == [(1, ("ada", 3))]
    assert list(driver.store("n").items()) == [("a", 1)]


def test_steps_that_cannot_work_are_refused_at_their_line() -> None:
    def build(*stores: Any, make: Any = Recording) -> Callable[[], object]:
        return lambda: TopologyDriver(lambda topics: topics.stream("in").process(make, stores=list(stores)))

    for wrong, says in [
        (build("nothing"), "there is no store or table 'nothing' yet"),
        (build(KeyValueStore("a"), VersionedStore("a", "1d")), "two stores have the name 'a'"),
        (build(3), "3 is not a store"),
        (build(make=Recording()), "each task needs its own; give the class"),
        (build(make=None), "is not a processor"),
        (lambda: KeyValueStore(""), "name is ''"),
        (lambda: KeyValueStore("a", touch="read"), "need ttl="),
        (lambda: KeyValueStore("a", ttl="x"), "ttl"),
        (lambda: WindowStore("a"), "WindowStore a: retention"),
        (lambda: SessionStore("a"), "SessionStore a: retention"),
    ]:
        with pytest.raises(BuildError, match=says):
            wrong()
    with pytest.raises(OperatorFailed, match=r"p has no store 'x'; it has \[\]: name it in process"):
        driver_of(process=lambda c, r: c.store("x")).pipe("in", "a", 1, 1)


def test_a_versioned_store_without_a_history_keeps_the_newest_version_only() -> None:
    seen: list[Any] = []

    def process(context: ProcessorContext, record: Record) -> None:
        store = context.store("v")
        store.put(record.key, record.value, record.timestamp)
        seen.append([store.get(record.key, at) for at in (1, 2)])

    driver = driver_of(process=process, stores=[VersionedStore("v")])
    driver.pipe("in", "a", "old", 1)
    driver.pipe("in", "a", "new", 2)
    assert [[entry and entry.value for entry in each] for each in seen] == [["old", "old"], [None, "new"]]


def test_keyed_gives_each_key_a_state_that_lasts_until_none() -> None:
    def step(state: int, record: Record) -> tuple[int | None, list[Any]]:
        total = state + record.value
        return (None, [total, Record("big", total, 0)]) if total > 9 else (total, [])

    driver = TopologyDriver(lambda topics: topics.stream("in").keyed(step, initial=0, name="sums"))
    assert driver.pipe("in", "a", 6, 1) == []
    assert driver.pipe("in", "b", 1, 2) == []
    entries = driver.changes()
    driver.restart(entries)
    assert plain(driver.pipe("in", "a", 5, 3)) == [("a", 11, 3), ("big", 11, 0)]
    assert list(driver.store("sums").items()) == [("b", 1)]
    assert driver.pipe("in", None, 5, 3) == []
    assert driver.dropped == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [(None, r"return \(state, results\)"), ((1, None), r"\[\] for none"), ((1, "text"), r"the results are 'text'")],
)
def test_what_a_keyed_function_must_return_is_said(answer: Any, says: str) -> None:
    driver = TopologyDriver(lambda topics: topics.stream("in").keyed(lambda state, record: answer))
    with pytest.raises(OperatorFailed, match=says):
        driver.pipe("in", "a", 6, 1)


def test_an_initial_state_that_keys_would_share_is_refused() -> None:
    with pytest.raises(BuildError, match="give a function: initial=list"):
        TopologyDriver(lambda topics: topics.stream("in").keyed(print, initial=[]))


def test_a_processor_reads_where_its_row_comes_from_and_nothing_of_it_between_rows() -> None:
    seen: list[Any] = []
    driver = driver_of(
        init=lambda c: c.schedule("10ms", lambda _: seen.append(c.record_context), "wall"),
        process=lambda c, r: seen.append(c.record_context),
    )
    driver.pipe("in", "a", 1, 5, headers=[("h", b"1")])
    driver.pipe("in", "a", 2, 6)
    driver.advance_wall_clock("10ms")
    topics = [(each.topic, each.partition, each.offset, each.headers) for each in seen if each is not None]
    assert topics == [("in", 0, 0, (("h", b"1"),)), ("in", 0, 1, ())]
    assert seen[2:] == [None]


@pytest.mark.parametrize("duplicates", [True, False])
def test_the_changelog_of_a_window_store_says_whether_it_has_duplicates(duplicates: bool) -> None:
    def driver(retain_duplicates: bool) -> TopologyDriver:
        store = WindowStore("s", "1h", retain_duplicates=retain_duplicates)
        return driver_of(process=lambda c, r: c.store("s").put(r.key, r.value, r.timestamp), stores=[store])

    written = driver(duplicates)
    written.pipe("in", "a", 1, 1)
    changes = written.changes()
    driver(duplicates).restart(changes)
    with pytest.raises(
        RestoreError, match=f"belongs to definition.*window store{' with duplicates' if duplicates else ''}"
    ):
        driver(not duplicates).restart(changes)
