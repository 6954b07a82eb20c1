"""Windows with an offset, and windows of days in a time zone, against plain models."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamactors.errors import BuildError
from streamactors.testing import WindowTestDriver
from streamactors.windows import BufferConfig, Suppressed, TimeWindows
from tests.models.zone_model import QUARTER_MS, ZoneModel

DAY_MS = 86_400_000
CHANGES = {  # a time near which the clock of the zone is changed
    "Europe/Oslo": "2026-03-29T02:00",
    "America/New_York": "2026-11-01T02:00",
    "America/Sao_Paulo": "2018-11-04T00:00",  # midnight is skipped
    "America/Havana": "2026-11-01T01:00",  # midnight comes twice
    "Australia/Lord_Howe": "2026-04-05T02:00",  # by half an hour
    "Pacific/Apia": "2011-12-30T12:00",  # a day is left out
    "Asia/Kathmandu": "1986-01-01T00:00",  # by a quarter of an hour
    "UTC": "2026-03-29T02:00",
}


def at(zone: str, text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def hours(windows: TimeWindows, zone: str, text: str) -> float:
    [start] = windows.starts(at(zone, text))
    return (windows.end(start) - start) / 3_600_000


@st.composite
def definitions(draw: st.DrawFn) -> tuple[str, int, int, int, int]:
    """Zone, size and advance in days, offset in quarters of an hour, a time in ms."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    size = draw(st.integers(1, 4))
    advance = draw(st.integers(1, size))
    offset = draw(st.one_of(st.just(0), st.integers(0, advance * 96 - 1)))
    return zone, size, advance, offset, at(zone, CHANGES[zone]) + draw(st.integers(-3 * 96, 3 * 96)) * QUARTER_MS


def windows_of(size: int, advance: int, offset: int, zone: str) -> TimeWindows:
    windows = TimeWindows.of_size(size * DAY_MS).advance_by(advance * DAY_MS)
    return windows.with_offset(offset * QUARTER_MS).in_zone(zone).with_no_grace()


@settings(max_examples=250, deadline=None)
@given(drawn=definitions())
@example(drawn=("Pacific/Apia", 1, 1, 0, at("Pacific/Apia", "2011-12-31T00:00")))
@example(drawn=("Pacific/Apia", 2, 1, 0, at("Pacific/Apia", "2012-01-01T00:00")))
@example(drawn=("Pacific/Apia", 2, 2, 0, at("Pacific/Apia", "2011-12-31T12:00")))
@example(drawn=("Europe/Oslo", 1, 1, 10, at("Europe/Oslo", "2026-03-29T03:00")))  # 02:30 is skipped
def test_windows_of_a_zone_are_those_of_its_clock(drawn: tuple[str, int, int, int, int]) -> None:
    zone, size, advance, offset, moment = drawn
    windows, model = windows_of(size, advance, offset, zone), ZoneModel(zone, moment, size, advance, offset)
    expected = model.windows(moment)
    assert [(start, windows.end(start)) for start in windows.starts(moment)] == expected
    begin, end = windows.slot(moment)
    assert begin <= moment < end
    for other in (begin, end - 1):
        assert list(windows.starts(other)) == [start for start, _ in expected], "a slot has the same windows"
    closed = windows.closed_through(moment)
    for start, ends in {each for shift in range(-5, 6) for each in model.windows(moment + shift * DAY_MS)}:
        assert (start <= closed) == (ends <= moment)


@settings(max_examples=200, deadline=None)
@given(
    spans=st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))),
    offset=st.integers(0, 11),
    moment=st.integers(0, 60),
)
def test_windows_with_an_offset_are_those_of_the_definition(spans: tuple[int, int], offset: int, moment: int) -> None:
    size, advance = spans
    offset %= advance
    windows = TimeWindows(size, advance).with_offset(f"{offset}ms").with_no_grace()
    expected = [n * advance + offset for n in range(80) if n * advance + offset <= moment < n * advance + offset + size]
    assert list(windows.starts(moment)) == expected
    begin, end = windows.slot(moment)
    assert begin <= moment < end
    for other in range(max(0, begin), end):
        assert list(windows.starts(other)) == expected
    for start in range(offset, 80, advance):
        assert (start <= windows.closed_through(moment)) == (start + size <= moment)


Rows = list[tuple[str, int]]


def counted(windows: TimeWindows, rows: Rows, *, final: bool) -> list[tuple[str, int, int, int]]:
    def build(records):
        table = records.group_by_key().windowed_by(windows).count()
        return (
            table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())) if final else table
        ).to_stream()

    driver = WindowTestDriver(build, topic="input")
    found = [each for key, time in rows for each in driver.pipe(key, 1, timestamp=time)]
    return [(each.key, each.start, each.end, each.value) for each in found]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    drawn=definitions(),
    shifts=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-2 * 96, 3 * 96)), max_size=12),
    grace=st.sampled_from([0, 3_600_000, DAY_MS]),
)
def test_counts_and_finals_of_zone_windows_equal_the_model(drawn, shifts, grace) -> None:
    zone, size, advance, offset, moment = drawn
    windows = windows_of(size, advance, offset, zone).with_grace(grace)
    model = ZoneModel(zone, moment, size, advance, offset, days=14)
    rows = [(key, moment + shift * QUARTER_MS) for key, shift in shifts]
    counts: dict[tuple[str, int, int], int] = {}
    time, updates, released = -1, [], []
    done: set[tuple[int, int]] = set()
    for key, timestamp in rows:
        time = max(time, timestamp)
        for start, end in model.windows(timestamp):
            if end + grace > time:
                counts[key, start, end] = counts.get((key, start, end), 0) + 1
                updates.append((key, start, end, counts[key, start, end]))
        due = sorted(
            (start, key, end) for key, start, end in counts if end + grace <= time and (start, end) not in done
        )
        released += [(key, start, end, counts[key, start, end]) for start, key, end in due]
        done |= {(start, end) for start, _, end in due}
    assert counted(windows, rows, final=False) == updates
    assert counted(windows, rows, final=True) == released


def test_the_days_of_a_clock_change_have_23_and_25_hours() -> None:
    day = TimeWindows.of_size("1d").in_zone("Europe/Oslo").with_no_grace()
    assert [hours(day, "Europe/Oslo", f"2026-{text}T12:00") for text in ("03-28", "03-29", "10-25", "10-26")] == [
        24,
        23,
        25,
        24,
    ]
    week = TimeWindows.of_size("7d").with_offset("4d").in_zone("Europe/Oslo").with_no_grace()
    assert hours(week, "Europe/Oslo", "2026-03-29T12:00") == 7 * 24 - 1
    [start] = week.starts(at("Europe/Oslo", "2026-03-29T12:00"))
    assert datetime.fromtimestamp(start / 1_000, ZoneInfo("Europe/Oslo")).strftime("%A %H:%M") == "Monday 00:00"


def test_a_changelog_of_other_windows_is_told_apart() -> None:
    plain = TimeWindows.of_size("1d").with_no_grace()
    shapes = {
        plain.shape,
        plain.with_offset("6h").shape,
        plain.in_zone("Europe/Oslo").shape,
        plain.in_zone("UTC").shape,
    }
    assert len(shapes) == 4
    assert plain.shape == "time windows of 86400000 ms every 86400000 ms", "that of changelogs which exist"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda w: w.with_offset("1d"), "offset is 86400000 ms, and a window begins every 86400000 ms"),
        (
            lambda w: w.with_offset("12h").advance_by("6h"),
            "offset is 43200000 ms, and a window begins every 21600000 ms",
        ),
        (lambda w: w.with_offset("-1h"), "TimeWindows: offset"),
        (lambda w: w.in_zone("Europe/Olso"), "no time zone 'Europe/Olso' on this machine"),
        (lambda w: w.in_zone(3), "in_zone expects the name of a time zone"),
        (lambda w: w.advance_by("1h").in_zone("Europe/Oslo"), "need a size and an advance of whole days"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(make, message) -> None:
    with pytest.raises(BuildError, match=message):
        make(TimeWindows.of_size("1d"))
