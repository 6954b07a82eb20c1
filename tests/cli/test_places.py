"""Places in a topic and moments: the words of `--from`, `--until`, `--to` and `--timestamp`."""

from __future__ import annotations

import click
import pytest

from streamactors.cli.places import MOMENT, Kind, Place, moment_ms, place_of

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("beginning", Kind.BEGINNING, 0),
        ("Earliest", Kind.BEGINNING, 0),
        ("end", Kind.END, 0),
        ("latest", Kind.END, 0),
        ("17", Kind.OFFSET, 17),
        ("@17", Kind.OFFSET, 17),
        ("-5", Kind.SHIFT, -5),
        ("+5", Kind.SHIFT, 5),
        ("now", Kind.TIME, NOW_MS),
        ("-1h", Kind.TIME, NOW_MS - 3_600_000),
        ("-1h30m", Kind.TIME, NOW_MS - 5_400_000),
        ("+10s", Kind.TIME, NOW_MS + 10_000),
        ("-900000w", Kind.TIME, 0),
        ("1970-01-02", Kind.TIME, 86_400_000),
        ("1970-01-02T01:00+01:00", Kind.TIME, 86_400_000),
        ("1970-01-02 00:00:00.250Z", Kind.TIME, 86_400_250),
        ("1960-01-01", Kind.TIME, 0),
    ],
)
def test_a_place_has_many_words(text: str, kind: Kind, number: int) -> None:
    assert place_of(text, NOW_MS) == Place(kind, number, text)


@pytest.mark.parametrize("text", ["", "noon", "-", "+-5", "--5", "@", "@-5", "5h", "-1x", "2026-13-01", "9" * 20])
def test_an_unknown_word_names_the_choices(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"give beginning \(earliest\), end \(latest\), an offset such as 17 or @17, -N or"
    ):
        place_of(text, NOW_MS)


def test_a_span_without_end_is_as_far_as_times_go() -> None:
    assert moment_ms("-" + "9" * 400 + "h", NOW_MS) == 0
    assert moment_ms("+" + "9" * 400 + "h", NOW_MS) == (1 << 63) - 1


def test_a_moment_may_be_a_number_of_milliseconds() -> None:
    assert [MOMENT.convert(text, None, None) for text in ("5", "-5", "1970-01-02")] == [5, -5, 86_400_000]
    with pytest.raises(click.BadParameter, match="'5h' is no time; give now, ms since 1970, a time ago such as -1h"):
        MOMENT.convert("5h", None, None)
