"""What the steps of a topology refuse while it is built: each error names the step, the value that is wrong and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import Topics
from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver
from streamactors.windows import (
    BufferConfig,
    CountWindows,
    JoinWindows,
    SessionWindows,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)

FIVE: Any = 5
CLOSE = JoinWindows.of("5m").with_grace("1m")
MINUTES = TimeWindows.of_size("1m").with_no_grace()
SESSIONS = SessionWindows.with_gap("1m").with_no_grace()


def stream(topics: Topics) -> Any:
    return topics.stream("a")


def other(topics: Topics) -> Any:
    return topics.stream("b")


def table(topics: Topics) -> Any:
    return topics.table("t")


def grouped(topics: Topics) -> Any:
    return stream(topics).group_by_key()


def counted(topics: Topics) -> Any:
    return grouped(topics).windowed_by(CountWindows.of_size(2))


def minutes(topics: Topics) -> Any:
    return grouped(topics).windowed_by(MINUTES).count()


def elsewhere(make: Callable[[Topics], Any]) -> Any:
    """Return a part of another topology."""
    made: list[Any] = []

    def build(topics: Topics) -> Any:
        made.append(make(topics))
        return topics.stream("sent").peek(print)

    TopologyDriver(build)
    return made[0]


def regrouped(topics: Topics) -> Any:
    return table(topics).group_by(lambda key, value: (value, key))


WANTS_A_FUNCTION: dict[str, Callable[[Topics, Any], object]] = {
    "map": lambda t, f: stream(t).map(f),
    "flat_map": lambda t, f: stream(t).flat_map(f),
    "map_values": lambda t, f: stream(t).map_values(f),
    "flat_map_values": lambda t, f: stream(t).flat_map_values(f),
    "filter": lambda t, f: stream(t).filter(f),
    "filter_not": lambda t, f: stream(t).filter_not(f),
    "select_key": lambda t, f: stream(t).select_key(f),
    "peek": lambda t, f: stream(t).peek(f),
    "join_table": lambda t, f: stream(t).join_table(table(t), f),
    "join_global": lambda t, f: stream(t).join_global(t.global_table("g"), f),
    "join_global: key": lambda t, f: stream(t).join_global(t.global_table("g"), max, key=f),
    "join_lookup": lambda t, f: stream(t).join_lookup(f),
    "join_lookup: joiner": lambda t, f: stream(t).join_lookup(str, f),
    "join_lookup: key": lambda t, f: stream(t).join_lookup(str, key=f),
    "join": lambda t, f: stream(t).join(other(t), f, CLOSE),
    "cogroup": lambda t, f: grouped(t).cogroup(f),
    "of": lambda t, f: grouped(t).max(f),
    "reduce": lambda t, f: counted(t).reduce(f),
    "aggregate: init": lambda t, f: counted(t).aggregate(f, max),
    "aggregate: add": lambda t, f: counted(t).aggregate(int, f),
    "reduce: subtract": lambda t, f: regrouped(t).reduce(max, f),
    "aggregate: subtract": lambda t, f: regrouped(t).aggregate(int, max, f),
    "join_foreign_key": lambda t, f: table(t).join_foreign_key(t.table("u"), f, max),
    "group_by": lambda t, f: table(t).group_by(f),
}

AND_THESE: list[tuple[str, Callable[[Topics, Any], object]]] = [
    ("cogroup", lambda t, f: grouped(t).cogroup(max).cogroup(other(t).group_by_key(), f)),
    ("reduce", lambda t, f: regrouped(t).reduce(f, max)),
    ("aggregate: init", lambda t, f: regrouped(t).aggregate(f, max, max)),
    ("aggregate: add", lambda t, f: regrouped(t).aggregate(int, f, max)),
    ("join_foreign_key", lambda t, f: table(t).join_foreign_key(t.table("u"), max, f)),
    ("join", lambda t, f: table(t).join(t.table("u"), f)),
    ("filter", lambda t, f: table(t).filter(f)),
    ("filter_not", lambda t, f: table(t).filter_not(f)),
    ("map_values", lambda t, f: table(t).map_values(f)),
]
ALL = [*WANTS_A_FUNCTION.items(), *AND_THESE]


async def coroutine_function(*_: Any) -> Any:
    """Given where nothing awaits it."""


def refusal(build: Callable[[Topics], object]) -> str:
    with pytest.raises(BuildError) as refused:
        TopologyDriver(build)
    return str(refused.value)


@pytest.mark.parametrize(("step", "build"), ALL, ids=[f"{at}-{name}" for at, (name, _) in enumerate(ALL)])
def test_what_cannot_be_called_is_refused_by_the_step(step: str, build: Callable[[Topics, Any], object]) -> None:
    assert refusal(lambda topics: build(topics, FIVE)) == f"{step}: 5 is not callable; give a function"
    if step != "join_lookup":  # the only step that awaits
        assert refusal(lambda topics: build(topics, coroutine_function)).startswith(f"{step}")


WRONG: dict[str, tuple[Callable[[Topics], object], str]] = {
    "a stream with a topic in place of a table": (
        lambda t: stream(t).join_table(other(t), max),
        "join_table: a TopologyStream is not a table of this kind; make one with topics.table(…)",
    ),
    "a table in place of a global one": (
        lambda t: stream(t).join_global(table(t), max),
        "is not a global table; use join_table, or topics.global_table(…)",
    ),
    "a stream joined with a table": (
        lambda t: stream(t).join(table(t), max, CLOSE),
        "join: a stream joins a stream within windows, got a TopologyTable; a table: join_table",
    ),
    "a join without windows": (
        lambda t: stream(t).join(other(t), max),
        "join: windows is None; say how far apart two records may be: JoinWindows.of('5m')",
    ),
    "how of join": (
        lambda t: stream(t).join(other(t), max, CLOSE, how=FIVE),
        "join: how is 5; choose one of 'inner', 'left', 'outer'",
    ),
    "how of join_table": (
        lambda t: stream(t).join_table(table(t), max, how=FIVE),
        "join_table: how is 5; choose one of 'inner', 'left'",
    ),
    "how of join_global": (
        lambda t: stream(t).join_global(t.global_table("g"), max, how=FIVE),
        "join_global: how is 5; choose one of 'inner', 'left'",
    ),
    "how of join_lookup": (
        lambda t: stream(t).join_lookup(str, how=FIVE),
        "join_lookup: how is 5; choose one of 'inner', 'left'",
    ),
    "how of two tables": (
        lambda t: table(t).join(t.table("u"), max, how=FIVE),
        "join: how is 5; choose one of 'inner', 'left', 'outer'",
    ),
    "how of join_foreign_key": (
        lambda t: table(t).join_foreign_key(t.table("u"), max, max, how=FIVE),
        "join_foreign_key: how is 5; choose one of 'inner', 'left'",
    ),
    "a table joined with a stream": (
        lambda t: table(t).join(stream(t), max),
        "join: a table joins a table, got a TopologyStream",
    ),
    "a foreign key into a stream": (
        lambda t: table(t).join_foreign_key(stream(t), max, max),
        "join_foreign_key: a table joins a table, got a TopologyStream",
    ),
    "a windowed table joined with one without windows": (
        lambda t: grouped(t).windowed_by(MINUTES).count().join(table(t), max),
        "join: one table has windows and the other has none",
    ),
    "cogroup without a group": (
        lambda t: grouped(t).cogroup(max).cogroup(other(t), max),
        "is not grouped; give stream.group_by_key() or stream.group_by(…)",
    ),
    "sessions without merge": (
        lambda t: grouped(t).windowed_by(SESSIONS).aggregate(int, max),
        "aggregate: a row that bridges two sessions merges them",
    ),
    "cogrouped sessions without merge": (
        lambda t: grouped(t).cogroup(max).windowed_by(SESSIONS).aggregate(int),
        "cogroup: sessions merge, so their aggregates must be merged, too; give merge(a, b)",
    ),
    "a windowed table": (
        lambda t: stream(t).join_table(minutes(t), max),
        "join_table: the table has windows, and a record names none of them",
    ),
    "grace without history": (
        lambda t: stream(t).join_table(table(t), max, grace="1s"),
        "join_table: grace needs a table with history",
    ),
    "asof with a table": (
        lambda t: stream(t).join_asof(table(t), max),
        "join_asof: takes a stream, whose newest row at or before each record's time counts, got a TopologyTable",
    ),
    "suppress without a rule": (
        lambda t: minutes(t).suppress(FIVE),
        "suppress: 5 does not say when; give Suppressed.until_window_closes(…) or Suppressed.until_time_limit(…)",
    ),
    "suppress of versions": (
        lambda t: t.table("v", history="1h").suppress(Suppressed.until_time_limit("1m", BufferConfig.unbounded())),
        "suppress: a versioned table cannot be suppressed; read the topic without history=",
    ),
    "suppress until a window closes, without windows": (
        lambda t: table(t).suppress(Suppressed.until_window_closes()),
        "suppress: until_window_closes needs windows in every branch above, and one has none",
    ),
    "final results of a table": (
        lambda t: table(t).emit_on_window_close(),
        "emit_on_window_close reads the store of a windowed aggregation",
    ),
    "final results without windows": (
        lambda t: grouped(t).count().emit_on_window_close(),
        "emit_on_window_close reads the store of a windowed aggregation",
    ),
    "final results of an endless window": (
        lambda t: grouped(t).windowed_by(UnlimitedWindows.of()).count().emit_on_window_close(),
        "emit_on_window_close: an unlimited window never closes",
    ),
    "a join without grace": (
        lambda t: stream(t).join(other(t), max, JoinWindows.of("5m")),
        "join: the windows have no grace period",
    ),
    "a stream elsewhere": (lambda t: stream(t).join(elsewhere(other), max, CLOSE), "join: "),
    "a table elsewhere": (lambda t: stream(t).join_table(elsewhere(table), max), "join_table: "),
    "a stream elsewhere as of": (lambda t: stream(t).join_asof(elsewhere(other), max), "join_asof: "),
    "a table joined elsewhere": (lambda t: table(t).join(elsewhere(table), max), "join: "),
    "a foreign key elsewhere": (lambda t: table(t).join_foreign_key(elsewhere(table), max, max), "join_foreign_key: "),
    "a merge elsewhere": (lambda t: stream(t).merge(elsewhere(other)), "merge: "),
    "a group elsewhere": (lambda t: grouped(t).cogroup(max).cogroup(elsewhere(grouped), max), "cogroup: "),
    "a topic without a name": (lambda t: stream(t).to(""), "to: the topic is ''; give a name that is not empty"),
    "entries of a lookup below zero": (lambda t: stream(t).join_lookup(str, max_entries=-1), "max_entries"),
    "calls of a lookup": (lambda t: stream(t).join_lookup(str, max_concurrency=0), "max_concurrency"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_part_is_refused_with_the_way_out(case: str) -> None:
    build, said = WRONG[case]
    if "elsewhere" in case:
        said += ".* is not part of the same topology; make both from one Topics"
    else:
        said = re.escape(said)
    assert re.search(said, refusal(build))
