"""Random topologies of several topics with rows for them; the Java program Topologies has the same steps and functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamactors.testing import TopologyDriver
from streamactors.windows import BufferConfig, SessionWindows, SlidingWindows, Suppressed, TimeWindows
from streamactors.windows.definitions.join_windows import JoinWindows

Op = tuple[Any, ...]


Row = tuple[str, str | None, str | None, int] | tuple[str, str | None, str | None, int, str]


@dataclass
class TopologyCase:
    """`ops`: (kind, id, arguments…); `rows`: (topic, key, value, timestamp), and the value of the header "h" or nothing."""

    ops: list[Op]
    rows: list[Row]


@dataclass
class TopologyOutcome:
    """What each row gave: (key, value, timestamp, header); the number of rows dropped; the row at which the task died."""

    given: list[list[tuple[Any, ...]]] = field(default_factory=list)
    dropped: int = 0
    died: int | None = None
    refused: str | None = None
    reason: str = ""


def pair(left: str | None, right: str | None) -> str | None:
    if left == "q1":
        return None
    return f"({'.' if left is None else left}{'.' if right is None else right})"


def first(value: str | None) -> str | None:
    letters = [letter for letter in value or "" if letter.isascii() and letter.islower()]
    return None if not letters or letters[0] == "n" else letters[0]


def even(value: str | None) -> bool:
    return value is not None and len(value) % 2 == 0


def marked(value: str | None) -> str | None:
    return None if value is None else value + "'"


def known(value: str) -> str | None:
    """A table's map_values whose None deletes."""
    return None if first(value) == "b" else value


def named(key: str, value: str) -> str | None:
    """A foreign key of the key and the value."""
    return "a" if key == "x" else first(value)


def added(aggregate: str, value: str | None) -> str | None:
    return None if value == "q1" else plus(aggregate, value)


def plus(aggregate: str, value: str | None) -> str:
    return aggregate + ("null" if value is None else value)


class Builder:
    """Builds a case with the public words."""

    def __init__(self, topics: Any) -> None:
        self.topics = topics
        self.made: dict[str, Any] = {}
        self.windowed: dict[str, bool] = {}

    def make(self, op: Op) -> None:
        kind, name, *args = op
        made = [self.made.get(arg) if isinstance(arg, str) else arg for arg in args]
        self.windowed[name] = bool(args) and self.windowed.get(args[0], False)
        stored = f"store-{name}" if args and args[-1] == "1" else None
        self.made[name] = getattr(self, f"_{kind}")(name, args, made, stored)

    def _stream(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self.topics.stream(args[0])

    def _table(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self.topics.table(args[0], name=stored)

    def _versioned(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self.topics.table(args[0], name=f"store-{name}", history=int(args[1]))

    def _global(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self.topics.global_table(args[0])

    def _map(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].map_values(marked)

    def _filter(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].filter(lambda record: even(record.value))

    def _select(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].select_key(lambda record: first(record.value))

    def _merge(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].merge(made[1])

    def _repartition(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].repartition()

    def _to_table(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].to_table(name=stored)

    def _count(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].group_by_key().count().map_values(lambda count: f"c{count}")

    def _aggregate(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].group_by_key().aggregate(str, added)

    def _windows(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        self.windowed[name] = True
        windows = TimeWindows.of_size(int(args[1])).with_grace(int(args[2]))
        return made[0].group_by_key().windowed_by(windows).aggregate(str, added)

    def _hopping(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self._window(name, made, TimeWindows.of_size(int(args[1])).advance_by(2).with_grace(int(args[2])))

    def _sessions(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self._window(name, made, SessionWindows.with_gap(int(args[1])).with_grace(int(args[2])))

    def _sliding(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self._window(name, made, SlidingWindows.of_difference(int(args[1])).with_grace(int(args[2])))

    def _window(self, name: str, made: Any, windows: Any) -> Any:
        self.windowed[name] = True
        return made[0].group_by_key().windowed_by(windows).aggregate(str, added, lambda a, b: f"{a}/{b}")

    def _reduce(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].group_by_key().reduce(lambda a, v: None if v == "q1" else a + v)

    def _group_count(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].group_by(lambda key, value: (first(value), value)).count().map_values(lambda n: f"c{n}")

    def _bounded(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        buffer = BufferConfig.max_records(int(args[2])).emit_early_when_full()
        return made[0].suppress(Suppressed.until_time_limit(int(args[1]), buffer))

    def _cogroup(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return self._cogrouped(made).aggregate(str)

    def _cogroup_windows(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        self.windowed[name] = True
        windows = TimeWindows.of_size(int(args[2])).with_grace(int(args[3]))
        return self._cogrouped(made).windowed_by(windows).aggregate(str)

    def _cogrouped(self, made: Any) -> Any:
        grouped = made[0].group_by_key().cogroup(lambda a, v: plus(a + "+", v))
        return grouped.cogroup(made[1].group_by_key(), lambda a, v: plus(a + "*", v))

    def _join_table(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        grace = int(args[3]) if len(args) > 3 else None
        return made[0].join_table(made[1], pair, how=args[2], grace=grace)

    def _join_global(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].join_global(made[1], pair, key=lambda record: first(record.value), how=args[2])

    def _join(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        before, after, grace = map(int, args[3:])
        windows = JoinWindows.of(100_000).before(before).after(after).with_grace(grace)
        return made[0].join(made[1], pair, windows, how=args[2])

    def _map_table(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].map_values(marked, name=stored)

    def _filter_table(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].filter(even, name=stored)

    def _known_table(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].map_values(known, name=stored)

    def _not_table(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].filter_not(even, name=stored)

    def _not(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].filter_not(lambda record: even(record.value))

    def _foreign_named(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].join_foreign_key(made[1], named, pair, how=args[2])

    def _join_tables(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].join(made[1], pair, how=args[2], name=stored)

    def _foreign(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].join_foreign_key(made[1], lambda key, value: first(value), pair, how=args[2])

    def _group(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        grouped = made[0].group_by(lambda key, value: (first(value), value))
        return grouped.aggregate(str, lambda a, v: None if v == "q1" else f"{a}+{v}", lambda a, v: f"{a}-{v}")

    def _group_reduce(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        grouped = made[0].group_by(lambda key, value: (first(value), value))
        return grouped.reduce(lambda a, v: f"{a}+{v}", lambda a, v: f"{a}-{v}")

    def _limit(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].suppress(Suppressed.until_time_limit(int(args[1]), BufferConfig.unbounded()))

    def _final(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        return made[0].suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))

    def _to_stream(self, name: str, args: Any, made: Any, stored: Any) -> Any:
        if not self.windowed[name]:
            return made[0].to_stream()
        self.windowed[name] = False
        return made[0].to_stream().select_key(lambda record: f"{record.key}|{record.start}|{record.end}")

    def _out(self, name: str, args: Any, made: Any, stored: Any) -> None:
        made[0].to("output")


def build(case: TopologyCase, topics: Any) -> None:
    builder = Builder(topics)
    for op in case.ops:
        builder.make(op)


def run(case: TopologyCase, semantics: Any = "kafka", *, restarts: bool = False) -> TopologyOutcome:
    """Run a case; with `restarts`, the task is restored from its changelogs after each row."""
    outcome = TopologyOutcome()
    entries: list[Any] = []
    driver = TopologyDriver(lambda topics: build(case, topics), semantics=semantics)
    for at, row in enumerate(case.rows):
        try:
            outputs = driver.pipe(*row[:4], headers=[("h", each.encode()) for each in row[4:]])
        except Exception:
            outcome.died = at
            break
        outcome.given.append(
            [(each.record.key, each.record.value, each.record.timestamp, header(each.record)) for each in outputs]
        )
        if restarts:
            outcome.dropped += driver.dropped
            entries += driver.changes()
            driver.restart(entries)
    outcome.dropped += driver.dropped
    return outcome


def header(record: Any) -> str | None:
    """Return the value of the last header "h" of a record."""
    found = [value for name, value in record.context.headers if name == "h"] if record.context is not None else []
    return found[-1].decode() if found else None
