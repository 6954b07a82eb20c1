"""Topologies over sources of this process: Topics.in_memory in graphs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamactors import Sink, Source, Topics
from streamactors.errors import BuildError
from streamactors.windows import BufferConfig, JoinWindows, Processor, Record, Suppressed, TimeWindows


def rows(*given: tuple[Any, Any, int]) -> Source[Any, Any]:
    return Source.from_iterable([Record(*each) for each in given])


def listed(source: Any) -> list[tuple[Any, Any, int]]:
    return [(row.key, row.value, row.timestamp) for row in source.run_with(Sink.to_list()).result(timeout=20)]


def test_rows_of_two_sources_meet_in_the_order_of_their_times() -> None:
    topics = Topics.in_memory(
        {
            "orders": rows(("a", "o1", 1), ("a", "o2", 5), ("b", "o3", 6)),
            "people": rows(("a", "ada", 2), ("b", "bob", 4), ("a", "ann", 6)),
        }
    )
    known = topics.stream("orders").join_table(topics.table("people"), lambda o, p: f"{o}+{p}", how="left")
    graph = topics.source(known)
    wanted = [("a", "o1+None", 1), ("a", "o2+ada", 5), ("b", "o3+bob", 6)]
    assert listed(graph) == wanted
    assert listed(graph) == wanted  # a blueprint runs any number of times


def test_rows_that_wait_for_a_versioned_table_at_the_end_get_the_version_of_their_times() -> None:
    topics = Topics.in_memory(
        {"orders": rows(("a", "o1", 20), ("a", "o2", 30)), "prices": rows(("a", 5, 5), ("a", 9, 25))}
    )
    table = topics.table("prices", history="1d")
    priced = topics.stream("orders").join_table(table, lambda o, p: f"{o}+{p}", grace="10s")
    assert listed(topics.source(priced)) == [("a", "o1+5", 20), ("a", "o2+9", 30)]


def test_a_global_table_is_filled_before_the_first_row() -> None:
    topics = Topics.in_memory({"orders": rows((None, "c1", 1)), "countries": rows(("c1", "land", 99))})
    joined = topics.stream("orders").join_global(
        topics.global_table("countries"), lambda o, c: (o, c), key=lambda record: record.value
    )
    assert listed(topics.source(joined)) == [(None, ("c1", "land"), 1)]


def test_the_end_of_the_sources_closes_windows_and_joins() -> None:
    topics = Topics.in_memory({"web": rows(("1", "ada", 1)), "app": rows(("2", "ada", 2), ("3", "bob", 3))})
    web, app = topics.stream("web"), topics.stream("app")
    counts = (
        web.merge(app)
        .select_key(lambda record: record.value)
        .group_by_key()
        .windowed_by(TimeWindows.of_size(10).with_grace(0))
        .count()
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    )
    assert sorted(listed(topics.source(counts))) == [("ada", 2, 2), ("bob", 1, 3)]
    topics = Topics.in_memory({"left": rows(("a", 1, 1)), "right": rows(("b", 2, 2))})
    joined = topics.stream("left").join(
        topics.stream("right"), lambda a, b: (a, b), JoinWindows.of(5).with_grace(0), how="outer"
    )
    assert listed(topics.source(joined)) == [("a", (1, None), 1), ("b", (None, 2), 2)]


def test_late_rows_go_to_their_sink() -> None:
    late: list[Any] = []
    topics = Topics.in_memory({"left": rows(("a", 1, 100), ("a", 2, 5)), "right": rows()})
    joined = topics.stream("left").join(
        topics.stream("right"),
        lambda a, b: (a, b),
        JoinWindows.of(5).with_grace(0),
        late=Sink.to_list().map_materialized_value(late.append),
    )
    assert listed(topics.source(joined)) == []
    assert [each.record.timestamp for each in late[0].result(30)] == [5]


def test_a_processor_is_called_by_the_wall_clock_while_no_row_comes() -> None:
    class Ticks(Processor):
        def init(self, context: Any) -> None:
            context.schedule("5ms", lambda at: context.forward(Record("tick", 1, 7)), clock="wall")

        def process(self, record: Any) -> None:
            """Rows give nothing."""

    topics = Topics.in_memory({"pings": rows(("a", 1, 1)).concat(Source.maybe())})
    ticks = topics.source(topics.stream("pings").process(Ticks)).take(2)
    assert listed(ticks) == [("tick", 1, 7), ("tick", 1, 7)]


def test_a_topic_without_a_source_is_named() -> None:
    topics = Topics.in_memory({"a": rows()})
    joined = topics.stream("a").merge(topics.stream("b"))
    with pytest.raises(BuildError, match=r"no source for \['b'\]; it has \['a'\]"):
        topics.source(joined)


@pytest.mark.parametrize(
    ("join", "said"),
    [
        (lambda t: t.stream("a").join_table(t.stream("b"), max), "join_table: a TopologyStream is not a table"),
        (lambda t: t.stream("a").join(t.table("b"), max, JoinWindows.of("5m").with_no_grace()), "a table: join_table"),
        (lambda t: t.table("a").join(t.stream("b"), max), "join: a table joins a table, got a TopologyStream"),
        (lambda t: t.table("a").join_foreign_key(t.stream("b"), min, max), "join_foreign_key: a table joins a table"),
    ],
)
def test_a_join_with_the_wrong_side_names_the_right_one(join, said):
    topics = Topics.in_memory({"a": Source.empty(), "b": Source.empty()})
    with pytest.raises(BuildError, match=re.escape(said)):
        join(topics)


def test_each_source_of_a_topology_gives_the_rows_of_its_own_stream() -> None:
    # Every source gave the rows of all of them, and those of a stream that was asked for twice twice.
    topics = Topics.in_memory({"web": rows(("1", "ada", 1)), "app": rows(("2", "bob", 2))})
    web, app = topics.stream("web"), topics.stream("app")
    sources = [topics.source(web), topics.source(app), topics.source(web)]
    assert [listed(source) for source in sources] == [[("1", "ada", 1)], [("2", "bob", 2)], [("1", "ada", 1)]]


def test_sources_of_a_topology_that_have_no_names_are_refused() -> None:
    with pytest.raises(BuildError, match=r"Topics\.in_memory: the sources are \[1\]; give a dict"):
        Topics.in_memory([1])  # type: ignore[arg-type]
