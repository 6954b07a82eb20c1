"""Draw the timelines of docs/windows.md from the real operators: `python -m docs.draw_windows` (needs matplotlib).

Above: the rows in the order in which they came, at their event time, and stream time as it grew. Below: the windows that
the operator made, their grace, and the stream time at which it gave each result out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from streamactors.testing import WindowTestDriver
from streamactors.windows import BufferConfig, SessionWindows, SlidingWindows, Suppressed, TimeWindows

IMAGES = Path(__file__).parent / "images"
COLOURS = {"A": "#2b7a78", "B": "#d98e04"}
LATE = "#b3261e"
ROWS = [
    ("A", 1),
    ("B", 4),
    ("A", 6),
    ("A", 3),
    ("B", 12),
    ("A", 14),
    ("A", 9),
    ("A", 5),
    ("B", 21),
    ("A", 26),
    ("B", 31),
]


@dataclass
class Seen:
    """What a run of the operator showed: rows with their stream time and fate, windows with what became of them."""

    rows: list[tuple[str, int, int, bool]]  # key, timestamp, stream time then, late for every window
    windows: dict[tuple[str, int, int], tuple[int | None, int | None]]  # -> (final count, stream time when it came out)
    flushed: list[tuple[str, int, int]]


def watch(windows: Any, rows: list[tuple[str, int]]) -> Seen:
    """Run rows through the updates and the final results of a count."""
    unbounded = Suppressed.until_window_closes(BufferConfig.unbounded())
    updates = WindowTestDriver(lambda records: records.group_by_key().windowed_by(windows).count())
    finals = WindowTestDriver(lambda records: records.group_by_key().windowed_by(windows).count().suppress(unbounded))
    seen = Seen([], {}, [])
    stream_time = -1
    for key, timestamp in rows:
        stream_time = max(stream_time, timestamp)
        made = updates.pipe(key, 1, timestamp)
        seen.rows.append((key, timestamp, stream_time, not made))
        for each in made:
            where = (each.key, each.start, each.end)
            if each.value is None:
                seen.windows.pop(where, None)
            else:
                seen.windows.setdefault(where, (None, None))
        for each in finals.pipe(key, 1, timestamp):
            seen.windows[each.key, each.start, each.end] = (each.value, stream_time)
    for each in finals.end_of_input():
        seen.windows[each.key, each.start, each.end] = (each.value, None)
        seen.flushed.append((each.key, each.start, each.end))
    return seen


def draw(name: str, title: str, windows: Any, rows: list[tuple[str, int]], wait: int) -> None:
    """Write images/windows-`name`.png. `wait`: how far stream time must pass an end."""
    seen = watch(windows, rows)
    lanes = sorted(seen.windows, key=lambda where: (where[0], where[1], where[2]))
    figure, (above, below) = pyplot.subplots(
        2, 1, sharex=True, figsize=(10, 2.6 + 0.24 * (len(rows) + len(lanes))),
        height_ratios=[len(rows) + 1, len(lanes) + 1],
    )  # fmt: skip
    _draw_rows(above, seen)
    _draw_windows(below, seen, lanes, windows.inclusive_end, wait)
    last = max([timestamp for _, timestamp in rows] + [end + wait + 7 for _, _, end in seen.flushed]) + 1
    below.set_xlim(-4, last)
    below.set_xticks(range(0, last, 2))
    below.set_xlabel("event time")
    above.set_title(title, loc="left", fontsize=11)
    figure.tight_layout()
    figure.savefig(IMAGES / f"windows-{name}.png", dpi=110)
    pyplot.close(figure)


def _draw_rows(axes: Any, seen: Seen) -> None:
    corners = [(seen.rows[0][2], 0.0)]  # down to the next row, then across to what it made of stream time
    for at, (_, _, stream_time, _) in enumerate(seen.rows[1:], start=1):
        corners += [(corners[-1][0], at), (stream_time, at)]
    axes.plot(*zip(*corners, strict=True), color="#aaaaaa", linewidth=1.2, zorder=1)
    for at, (key, timestamp, _, late) in enumerate(seen.rows):
        colour = LATE if late else COLOURS[key]
        axes.scatter([timestamp], [at], color=colour, marker="x" if late else "o", s=42, zorder=3)
        label = f"{key}@{timestamp}" + (" late" if late else "  the grey line is stream time" if not at else "")
        axes.text(timestamp + 0.35, at, label, fontsize=8, va="center", color=colour)
    axes.set_ylim(len(seen.rows) - 0.4, -0.8)
    axes.set_yticks([])
    axes.set_ylabel("rows, as they came")
    axes.grid(axis="x", color="#eeeeee")


def _draw_windows(axes: Any, seen: Seen, lanes: list[tuple[str, int, int]], inclusive: bool, wait: int) -> None:
    for lane, where in enumerate(lanes):
        key, start, end = where
        count, released_at = seen.windows[where]
        shown_end = max(end, start + 0.15) if inclusive else end
        axes.barh(lane, shown_end - start, left=start, height=0.62, color=COLOURS[key], alpha=0.75, zorder=2)
        axes.barh(lane, wait, left=shown_end, height=0.62, color=COLOURS[key], alpha=0.18, hatch="///", zorder=2)
        brackets = f"[{start}, {end}]" if inclusive else f"[{start}, {end})"
        axes.text(start - 0.25, lane, f"{key} {brackets}", fontsize=7, ha="right", va="center")
        if released_at is not None:
            axes.plot([released_at], [lane], marker="v", color="black", markersize=6, zorder=4)
            axes.text(released_at + 0.35, lane, f"= {count}", fontsize=8, va="center", zorder=4)
        else:
            axes.text(
                shown_end + wait + 0.3,
                lane,
                f"= {count} at end of input",
                fontsize=7,
                va="center",
                color="#666666",
            )
    axes.set_ylim(len(lanes) - 0.4, -0.8)
    axes.set_yticks([])
    axes.set_ylabel("windows")
    axes.grid(axis="x", color="#eeeeee")


def draw_zone() -> None:
    """Write images/windows-zone.png: the days around two changes of the clock in Oslo, above the hours of UTC."""
    zone = ZoneInfo("Europe/Oslo")
    day = TimeWindows.of_size("1d").in_zone("Europe/Oslo").with_no_grace()
    figure, rows = pyplot.subplots(2, 1, figsize=(10, 2.6))
    for axes, first in zip(rows, (datetime(2026, 3, 28, 12), datetime(2026, 10, 24, 12)), strict=True):
        noon_ms = int(first.replace(tzinfo=zone).timestamp() * 1000)
        base = day.starts(noon_ms)[0]
        for number in range(3):
            [start] = day.starts(noon_ms + number * 86_400_000)
            begin, hours = (start - base) / 3_600_000, (day.end(start) - start) / 3_600_000
            odd = hours != 24
            axes.barh(0, hours - 0.25, left=begin, height=0.7, color=COLOURS["B" if odd else "A"], alpha=0.8)
            label = f"{datetime.fromtimestamp(start / 1000, zone):%d %B}: {hours:g} hours"
            axes.text(begin + hours / 2, 0, label, ha="center", va="center", color="white", fontsize=9)
        ticks = range(0, 73, 12)
        shown = [f"{datetime.fromtimestamp(base / 1000 + hour * 3600, UTC):%d %b %H:%M}" for hour in ticks]
        axes.set_xticks(list(ticks), shown, fontsize=8)
        axes.set_xlim(-0.5, 73.5)
        axes.set_yticks([])
    rows[0].set_title(
        'TimeWindows.of_size("1d").in_zone("Europe/Oslo"): days of Oslo, hours of UTC', loc="left", fontsize=11
    )
    figure.tight_layout()
    figure.savefig(IMAGES / "windows-zone.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Draw them all."""
    logging.getLogger("streamactors.windows").setLevel(logging.ERROR)
    IMAGES.mkdir(exist_ok=True)
    draw(
        "tumbling", "TimeWindows.of_size(10).with_grace(4): ▼ is the stream time at which a result comes out",
        TimeWindows.of_size("10ms").with_grace("4ms"), ROWS, 4,
    )  # fmt: skip
    draw(
        "hopping", "TimeWindows.of_size(10).advance_by(5).with_grace(2): every row lies in two windows",
        TimeWindows.of_size("10ms").advance_by("5ms").with_grace("2ms"), [("A", 1), ("A", 6), ("A", 13), ("A", 4), ("A", 8), ("A", 18), ("A", 30)], 2,
    )  # fmt: skip
    draw(
        "session", "SessionWindows.with_gap(3).with_grace(2): rows at most 3 apart; the row at 6 merges two sessions",
        SessionWindows.with_gap("3ms").with_grace("2ms"), [("A", 1), ("A", 3), ("B", 5), ("A", 8), ("A", 6), ("B", 14), ("A", 7), ("A", 17), ("B", 24)], 5,
    )  # fmt: skip
    draw(
        "sliding", "SlidingWindows.of_difference(6).with_grace(2): one window for every distinct set of rows that fits in 6",
        SlidingWindows.of_difference("6ms").with_grace("2ms"), [("A", 8), ("A", 11), ("A", 10), ("A", 16), ("A", 30)], 2,
    )  # fmt: skip
    draw_zone()


if __name__ == "__main__":
    main()
