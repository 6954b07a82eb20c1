"""A windowed computation with its input, as plain data: what the model, the real thing and Kafka Streams are all given.

The functions are fixed, so that every side has the same: texts are concatenated, "!" deletes an aggregate, filter keeps
even counts or texts of even length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True)
class Case:
    """`windows`: ("time", size, advance, grace), ("session", gap, grace), ("sliding", difference, grace),
    ("unlimited", start) or ("none",). `aggregate`: count, reduce, aggregate, or table (no windows only).
    `steps`: ("filter",), ("map",), ("final", max_records, max_bytes), ("limit", ms, max_records, max_bytes, policy);
    None is no bound. `emits`: emit_on_window_close. `rows`: (key, value, timestamp)."""

    windows: tuple[Any, ...]
    aggregate: str
    steps: tuple[tuple[Any, ...], ...]
    rows: tuple[tuple[str | None, str | None, int], ...]
    emits: bool = False
    semantics: str = "strict"


@dataclass
class Outcome:
    """Per row: what came out, (key, start, end, value, timestamp) or (key, value, timestamp), and what was held then,
    (records, bytes). `error`: (row, records, bytes) of the buffer that was full."""

    released: list[list[tuple[Any, ...]]] = field(default_factory=list)
    held: list[tuple[int, int]] = field(default_factory=list)
    late: int = 0
    null: int = 0
    error: tuple[int, int, int] | None = None


def add(aggregate: str, value: str | None) -> str | None:
    if value == "!":
        return None
    return aggregate + ("-" if value is None else value)


def merge(left: str, right: str) -> str:
    return left + "+" + right


def keeps(value: Any) -> bool:
    return (value if isinstance(value, int) else len(value)) % 2 == 0


def mapped(value: Any) -> str:
    return f"<{value}>"


_spans = st.integers(1, 12)
_grace = st.one_of(st.just(0), st.integers(0, 15))


@st.composite
def _windows(draw: st.DrawFn) -> tuple[Any, ...]:
    kind = draw(st.sampled_from(["time", "time", "session", "sliding", "unlimited"]))
    if kind == "time":
        size = draw(_spans)
        return "time", size, draw(st.one_of(st.just(size), st.integers(1, size))), draw(_grace)
    if kind == "session":
        return "session", draw(_spans), draw(_grace)
    if kind == "sliding":
        return "sliding", draw(st.integers(0, 12)), draw(_grace)
    return "unlimited", draw(st.integers(0, 20))


_bound = st.one_of(st.none(), st.none(), st.integers(0, 4))
_bytes = st.one_of(st.none(), st.none(), st.integers(0, 300))


@st.composite
def _limit(draw: st.DrawFn, strict: bool = False) -> tuple[Any, ...]:
    policy = "shut_down" if strict else draw(st.sampled_from(["emit_early", "shut_down"]))
    return "limit", draw(st.integers(0, 12)), draw(_bound), draw(_bytes), policy


_final = st.tuples(st.just("final"), _bound, _bytes)
_stateless = st.sampled_from([("filter",), ("map",)])


class By(int):
    """A distance in time from the row before, not a time."""


def _steps_of_time(windows: tuple[Any, ...]) -> list[By]:
    """Distances that make a difference: a size, gap or grace, sums of two, and one more or less."""
    spans = [part for part in windows[1:] if isinstance(part, int)]
    sums = {0, *spans, *(left + right for left in spans for right in spans)}
    return [By(sign * (total + near)) for total in sorted(sums) for near in (-1, 0, 1) for sign in (1, -1)]


def _walk(times: list[int]) -> list[int]:
    """Times and distances as times."""
    at, walked = 0, []
    for time in times:
        at = max(0, at + time) if isinstance(time, By) else time
        walked.append(int(at))
    return walked


@st.composite
def cases(draw: st.DrawFn, semantics: str | None = None, max_rows: int = 25) -> Case:
    """Small numbers, so that every boundary is met; now and then scaled up to hours and years."""
    windowed = draw(st.sampled_from([True, True, True, True, False]))
    windows = draw(_windows()) if windowed else ("none",)
    aggregate = draw(
        st.sampled_from(
            ["count", "count", "reduce", "aggregate"] if windowed else ["count", "reduce", "aggregate", "table"]
        )
    )
    emits = windowed and windows[0] != "unlimited" and draw(st.sampled_from([False, False, True]))
    some_suppress = st.one_of(_final, _final, _limit()) if windowed else _limit()
    steps = (
        draw(st.lists(st.one_of(_stateless, some_suppress), max_size=3))
        if draw(st.booleans())
        else [draw(some_suppress)]
    )
    keys = st.sampled_from(
        ["a", "a", "b", "ab", "a\x00", "é", "\uffff", "😀", None] if draw(st.booleans()) else ["a", "b"]
    )
    values = st.sampled_from(["x", "yy", "zzz", "x", "x", "!", None])
    stretch = draw(st.sampled_from([10, 40, 40, 100]))
    few = draw(st.sampled_from([1, 1, 8, 16]))
    times = st.one_of(st.integers(0, stretch), st.sampled_from(_steps_of_time(windows)))
    drawn = draw(st.lists(st.tuples(keys, values, times), min_size=few, max_size=max_rows))
    rows = list(
        zip([row[0] for row in drawn], [row[1] for row in drawn], _walk([row[2] for row in drawn]), strict=True)
    )
    scale, base = draw(
        st.sampled_from([(1, 0), (1, 0), (1, 0), (1, 1_000_003), (7, 0), (10_000, 0), (60_000, 1_700_000_000_000)])
    )
    spans = {"time": (1, 2, 3), "session": (1, 2), "sliding": (1, 2), "unlimited": (1,), "none": ()}[windows[0]]
    windows = tuple(part * scale if at in spans else part for at, part in enumerate(windows))
    steps = [("limit", step[1] * scale, *step[2:]) if step[0] == "limit" else step for step in steps]
    rows = [(key, value, base + at * scale + (at % 3 if scale > 1 else 0)) for key, value, at in rows]
    how = semantics or draw(st.sampled_from(["strict", "kafka"]))
    return Case(windows, aggregate, tuple(steps), tuple(rows), emits, how)


def variants(case: Case) -> list[Case]:
    """The same rows and windows through both semantics, every aggregation, updates, finals and emission."""
    windowed = case.windows[0] != "none"
    aggregates = ["count", "reduce", "aggregate"] + ([] if windowed else ["table"])
    pipelines = [(case.steps, case.emits), (case.steps, False), ((), False)]
    if windowed:
        pipelines.append(((("final", None, None),), False))
        if case.windows[0] != "unlimited":
            pipelines.append(((), True))
    distinct = dict.fromkeys(
        Case(case.windows, aggregate, steps, case.rows, emits, semantics)
        for semantics in ("strict", "kafka")
        for aggregate in aggregates
        for steps, emits in pipelines
    )
    return list(distinct)
