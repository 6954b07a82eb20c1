"""Draws random topologies with rows for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.models.topology_case import Op, TopologyCase

_STREAM_OPS = (
    "map",
    "filter",
    "not",
    "select",
    "repartition",
    "merge",
    "join_table",
    "join",
    "join_global",
    "join",
    "join_table",
)


_WINDOWS = ("windows", "hopping", "sessions", "sliding")


_TO_TABLE = ("to_table", "count", "aggregate", "reduce", *_WINDOWS, "cogroup", "cogroup_windows")


_TABLE_OPS = (
    "map_table",
    "filter_table",
    "not_table",
    "known_table",
    "join_tables",
    "join_tables",
    "foreign",
    "foreign_named",
    "group",
    "group_reduce",
    "group_count",
    "limit",
    "bounded",
)


TOPICS = ("a", "b", "c")


class _Draw:
    """Draws a topology step by step; every step is legal in Kafka Streams, too."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.ops: list[Op] = []
        self.streams: list[str] = []
        self.tables: list[str] = []
        self.windowed: dict[str, tuple[Any, ...]] = {}
        self.versioned: set[str] = set()
        self.unreadable: set[str] = set()  # Kafka Streams cannot join a windowed cogroup

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def add(self, kind: str, *args: Any) -> str:
        name = f"n{len(self.ops)}"
        self.ops.append((kind, name, *args))
        return name

    def topics(self) -> None:
        kinds = [self.pick(("stream", "table", "stream", "table", "versioned")) for _ in TOPICS[:2]]
        for topic, kind in zip(TOPICS, kinds, strict=False):
            if kind == "stream":
                self.streams.append(self.add("stream", topic))
            elif kind == "table":
                self.tables.append(self.add("table", topic, self.pick("01")))
            else:
                self.tables.append(self.add("versioned", topic, self.pick((5, 20, 100))))
                self.versioned.add(self.tables[-1])
        if self.streams:
            self.add("global", TOPICS[2])

    def step(self) -> None:
        on_stream = self.streams and (not self.tables or self.draw(st.booleans()))
        if on_stream and self.draw(st.integers(0, 3)) == 0:
            self.to_table()
        elif on_stream:
            self.on_stream()
        else:
            self.on_table()

    def on_stream(self) -> None:
        kind, stream = self.pick(_STREAM_OPS), self.pick(self.streams)
        plain = [table for table in self.tables if table not in self.windowed]
        if kind in ("map", "filter", "not", "select", "repartition"):
            self.streams.append(self.add(kind, stream))
        elif kind == "merge":
            self.streams.append(self.add(kind, stream, self.pick(self.streams)))
        elif kind == "join_table" and plain:
            table = self.pick(plain)
            grace = [self.pick((0, 3, 5))] if table in self.versioned and self.draw(st.booleans()) else []
            self.streams.append(self.add(kind, stream, table, self.pick(("inner", "left")), *grace))
        elif kind == "join_global":
            table = next(op[1] for op in self.ops if op[0] == "global")
            self.streams.append(self.add(kind, stream, table, self.pick(("inner", "left"))))
        elif kind == "join":
            how = self.pick(("inner", "left", "outer"))
            windows = self.pick(((0, 0), (2, 3), (10, 0), (0, 10), (-1, 8), (8, -2), (10, 10)))
            windows = (*windows, self.pick((0, 5)))
            self.streams.append(self.add(kind, stream, self.pick(self.streams), how, *windows))

    def to_table(self) -> None:
        kind, stream = self.pick(_TO_TABLE), self.pick(self.streams)
        windows = (self.pick((5, 10)), self.pick((0, 5)))
        others = [each for each in self.streams if each != stream]
        if kind.startswith("cogroup") and not others:
            kind = "aggregate"
        if kind == "to_table":
            self.tables.append(self.add(kind, stream, self.pick("01")))
        elif kind.startswith("cogroup"):
            args = windows if kind == "cogroup_windows" else ()
            self.tables.append(self.add(kind, stream, self.pick(others), *args))
        else:
            self.tables.append(self.add(kind, stream, *(windows if kind in _WINDOWS else ())))
        if kind in (*_WINDOWS, "cogroup_windows"):
            self.windowed[self.tables[-1]] = (kind.removeprefix("cogroup_"), *windows)
        if kind == "cogroup_windows":
            self.unreadable.add(self.tables[-1])

    def on_table(self) -> None:
        kind, table = self.pick(_TABLE_OPS), self.pick(self.tables)
        windows = self.windowed.get(table)
        plain = [each for each in self.tables if each not in self.windowed]
        if kind in ("map_table", "filter_table", "not_table", "known_table"):
            stored = "0" if windows else self.pick("01")
            self.tables.append(self.add(kind, table, stored))
            if table in self.versioned and stored == "0":
                self.versioned.add(self.tables[-1])
        elif kind == "join_tables" and table not in self.unreadable:
            others = [
                each for each in self.tables if self.windowed.get(each) == windows and each not in self.unreadable
            ]
            stored = "0" if windows else self.pick("01")
            self.tables.append(self.add(kind, table, self.pick(others), self.pick(("inner", "left", "outer")), stored))
        elif kind in ("limit", "bounded") and table not in self.versioned:
            bound = (self.pick((0, 1, 2)),) if kind == "bounded" else ()
            self.tables.append(self.add(kind, table, self.pick((0, 5)), *bound))
        elif windows:
            self.tables.append(self.add("final", table))
        elif kind in ("foreign", "foreign_named"):
            self.tables.append(self.add(kind, table, self.pick(plain), self.pick(("inner", "left"))))
        elif kind in ("group", "group_reduce", "group_count"):
            self.tables.append(self.add(kind, table))
        if windows and self.tables[-1] == f"n{len(self.ops) - 1}":
            self.windowed[self.tables[-1]] = windows
        if table in self.unreadable:
            self.unreadable.add(self.tables[-1])

    def out(self) -> None:
        self._out(-1)
        if (
            self.draw(st.integers(0, 3)) == 0
        ):  # rows of two ways in one topic show the order in which a row goes through the topology
            self._out(0)

    def _out(self, which: int) -> None:
        if self.tables and (not self.streams or self.draw(st.booleans())):
            self.add("out", self.add("to_stream", self.tables[which]))
        else:
            self.add("out", self.streams[which])


@st.composite
def topology_cases(draw: Any, max_rows: int = 14, max_steps: int = 5) -> TopologyCase:
    """A topology with rows."""
    making = _Draw(draw)
    making.topics()
    for _ in range(draw(st.integers(1, max_steps))):
        making.step()
    making.out()
    topics = sorted({str(op[2]) for op in making.ops if op[0] in ("stream", "table", "versioned", "global")})
    keys = st.sampled_from(["a", "b", "x", "", None])
    values = st.sampled_from(["a1", "b1", "x2", "a22", "b22", "n1", "q1", "x333", "", None])
    scale = draw(st.sampled_from([1, 1, 1, 1, 40_000]))
    times = st.integers(0, 30).map(lambda time: time * scale)
    headers = st.sampled_from("123")
    rows = draw(
        st.lists(st.tuples(st.sampled_from(topics), keys, values, times, headers), min_size=1, max_size=max_rows)
    )
    return TopologyCase(making.ops, rows)
