"""Laws that hold for every input: chunks, restarts, and what strict promises."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from streamactors.windows import BufferFull, Record, RecordContext
from streamactors.windows.state.store_log import META_KEY
from tests.models.window_case import Case, add, cases, keeps, merge
from tests.windows.run_case import definition, driver, plain, run

quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def records_of(case: Case) -> list[Record]:
    return [Record(*row, RecordContext("input", 0, at)) for at, row in enumerate(case.rows)]


@settings(quiet, max_examples=150)
@given(case=cases(), data=st.data())
def test_how_rows_are_cut_into_chunks_changes_nothing(case: Case, data: st.DataObject) -> None:
    wanted = run(case)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.rows)), max_size=4)))
    records, under_test, out = records_of(case), driver(case), []
    full = None
    try:
        for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
            under_test._task.process_into(records[start:end], out)
    except BufferFull as error:
        full = (error.records, error.bytes)
    assert full == (None if wanted.error is None else wanted.error[1:])
    if full is None:
        assert tuple(under_test.buffered) == wanted.held[-1]
        assert (under_test.dropped_late, under_test.dropped_null) == (wanted.late, wanted.null)
    assert [plain(each) for each in out] == [each for row in wanted.released for each in row]


@settings(quiet, max_examples=200)
@given(case=cases(), data=st.data())
def test_a_restart_changes_nothing(case: Case, data: st.DataObject) -> None:
    """Commit wherever, restart at any commit: rows, order and drops are those of a run without. Stream time included."""
    wanted = run(case)
    commits = set(data.draw(st.lists(st.integers(0, len(case.rows) - 1), min_size=1, max_size=5)))
    restarts = data.draw(st.sets(st.sampled_from(sorted(commits))))
    under_test, log, late, null = driver(case), [], 0, 0
    for at, row in enumerate(case.rows[: len(wanted.released)]):
        out: list[Any] = []
        full = None
        try:
            under_test.pipe_into(*row, out)
        except BufferFull as error:
            full = (at, error.records, error.bytes)
        assert [plain(each) for each in out] == wanted.released[at]
        if full is not None:
            assert full == wanted.error
            return
        if at in commits:
            changes = under_test.changes()
            assert len({(change.store, change.key) for change in changes}) == len(changes)  # each key once
            log.extend(changes)
            if at in restarts:
                late, null = late + under_test.dropped_late, null + under_test.dropped_null
                under_test.restart(log)
                assert all(change.key == META_KEY for change in under_test.changes())
    assert wanted.error is None
    assert (late + under_test.dropped_late, null + under_test.dropped_null) == (wanted.late, wanted.null)
    if case.windows[0] not in ("session", "sliding"):  # there, what was merged away is not restored to its place
        assert tuple(under_test.buffered) == wanted.held[-1]


@settings(quiet, max_examples=100)
@given(case=cases())
def test_the_changelog_holds_no_more_than_the_state(case: Case) -> None:
    """Replayed and compacted, the log of a run has the entries a fresh log of the same state would have."""
    assume(run(case).error is None)
    under_test, compacted = driver(case), {}
    for row in case.rows:
        under_test.pipe(*row)
        for change in under_test.changes():
            compacted[change.store, change.key] = change.value
    live = {where: value for where, value in compacted.items() if value is not None}
    at_once = driver(case)
    for row in case.rows:
        at_once.pipe(*row)
    assert {
        (change.store, change.key): change.value for change in at_once.changes() if change.value is not None
    } == live


@settings(quiet, max_examples=300)
@given(case=cases(semantics="strict", max_rows=30))
def test_strict_final_results_are_final(case: Case) -> None:
    """Once each; equal to the last update of their window; in time order within one row; never None; none lost."""
    assume(case.windows[0] != "none")
    case = Case(case.windows, case.aggregate, (("final", None, None),), case.rows, False, "strict")
    finals, updates = driver(case), driver(Case(case.windows, case.aggregate, (), case.rows, False, "strict"))
    emitting = None
    if case.windows[0] != "unlimited":
        emitting = driver(Case(case.windows, case.aggregate, (), case.rows, True, "strict"))
    last: dict[Any, Any] = {}
    given: list[Any] = []
    emitted: list[Any] = []

    def take(released: list[Any]) -> None:
        assert [each.end for each in released] == sorted(each.end for each in released)
        given.extend(released)

    for row in case.rows:
        for each in updates.pipe(*row):
            last[each.key, each.start, each.end] = each
        take(finals.pipe(*row))
        if emitting is not None:
            emitted.extend(emitting.pipe(*row))
    if emitting is not None:
        assert sorted(map(plain, emitted)) == sorted(map(plain, given))  # the two ways to finals agree
    take(finals.end_of_input())
    assert all(each.value is not None for each in given)
    assert len({(each.key, each.start, each.end) for each in given}) == len(given)
    expected = {where: each for where, each in last.items() if each.value is not None}
    assert {(each.key, each.start, each.end): plain(each) for each in given} == {
        k: plain(v) for k, v in expected.items()
    }


@settings(quiet, max_examples=150)
@given(case=cases(semantics="strict", max_rows=30))
def test_strict_windows_contain_exactly_the_rows_that_were_not_late(case: Case) -> None:
    """By definition, not by history: with an unordered aggregate, the finals are sums over the rows that belong."""
    kind = case.windows[0]
    assume(kind in ("time", "session"))
    rows = [(key, "x", timestamp) for key, _, timestamp in case.rows if key is not None]
    finals = driver(Case(case.windows, "count", (("final", None, None),), tuple(rows), False, "strict"))
    got = [plain(each) for row in rows for each in finals.pipe(*row)]
    got += [plain(each) for each in finals.end_of_input()]
    late = defaultdict(int)
    for each in finals.late:
        late[each.record.key, each.record.timestamp, each.start] += 1
    windows = definition(case.windows)
    if kind == "time":
        counts: dict[Any, int] = defaultdict(int)
        for key, _, timestamp in rows:
            for start in windows.starts(timestamp):
                counts[key, start] += 1
        for (key, _, start), times in late.items():
            counts[key, start] -= times
        assert {(key, start): value for key, start, _, value, _ in got} == {k: n for k, n in counts.items() if n}
    else:
        assert sum(value for *_, value, _ in got) == len(rows) - finals.dropped_late
        for key, start, end, *_ in got:
            assert any(row[0] == key and row[2] == start for row in rows)
            assert any(row[0] == key and row[2] == end for row in rows)


def test_the_fixed_functions_are_what_the_cases_say() -> None:
    assert add("a", "b") == "ab"
    assert add("a", None) == "a-"
    assert add("a", "!") is None
    assert merge("a", "b") == "a+b"
    assert keeps(2)
    assert not keeps("abc")
