"""Compares the totals that the run wrote with those that pandas computes from the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from streamactors.demo.checking.tables import Tables
from streamactors.demo.checking.truth import Truth

if TYPE_CHECKING:
    import pandas as pd


class Finding(NamedTuple):
    """One thing that was compared. `wrong` says how it differs, None when it does not."""

    what: str
    wrong: str | None


def check(tables: Tables, truth: Truth, produced: int) -> Iterator[Finding]:
    """Yield a finding per total."""
    yield _equal("records produced: the flights, and the damaged ones", produced, truth.flights + truth.planted)
    yield _equal("flights in Parquet", tables.flights, truth.flights)
    yield _same("flights, cancellations, delays and miles per month and airline", tables.by_airline, truth.by_airline)
    yield _same("every hour with its weather", tables.hours, truth.hours)
    yield _equal("late flights", tables.late, truth.late)
    for graph, dead in tables.dead.items():
        yield _equal(f"dead letters of {graph}", dead, truth.planted)
    yield _equal("graphs with dead letters", len(tables.dead), 2)
    in_hours = int(tables.hours["flights"].sum())
    yield _equal("flights in hours + late + dead letters = records", in_hours + tables.late + truth.planted, produced)
    for topic, (rows, differs) in tables.both_ways.items():
        yield Finding(f"{topic} of Spark's executors and of this process: {rows:,} rows", differs)
    yield _equal("topics that were written both ways", len(tables.both_ways), 2)
    for what, (rows, differs) in tables.joined.items():
        yield Finding(f"{what}, joined by Spark and by streamactors: {rows:,} rows", differs)
    yield _equal("joins that were done both ways", len(tables.joined), 2)
    yield _same("every alert", tables.alerts, truth.alerts)


def _equal(what: str, found: int, expected: int) -> Finding:
    if found == expected:
        return Finding(f"{what}: {found:,}", None)
    return Finding(what, f"{found:,} instead of {expected:,}")


def _same(what: str, found: pd.DataFrame, expected: pd.DataFrame) -> Finding:
    """Compare two tables row for row."""
    from pandas.testing import assert_frame_equal

    try:
        assert_frame_equal(found, expected, check_dtype=False, rtol=1e-12)
    except AssertionError as error:
        return Finding(what, " ".join(str(error).split()))
    return Finding(f"{what}: {len(found):,} rows", None)
