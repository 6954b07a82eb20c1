"""Every example runs as it stands, and shows what it says it shows."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from streamactors.kafka.client.connection import ClientConnection

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine the first answer of a broker may take longer than a user would like to wait."""
    monkeypatch.setattr(ClientConnection, "silence_ms", 60_000)


@pytest.fixture
def shown(monkeypatch, capsys):
    def run(name: str, *arguments: str) -> list[str]:
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [path, *arguments])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def test_word_count_counts_the_words_of_all_lines(shown):
    assert shown("word_count") == [
        "  4 a",
        "  3 for",
        "  3 waits",
        "  2 river",
        "  2 stream",
        "  1 demand",
        "  1 is",
        "  1 nobody",
        "  1 that",
        "  1 you",
    ]


def test_exactly_once_copy_has_every_record_once_though_it_died_twice(shown):
    first, second, third, result = shown("exactly_once_copy")
    assert first.startswith("the copier died: ")
    assert second.startswith("the copier died: ")
    assert third == "copied to the end"
    assert result == "20,000 orders, 20,000 in the copy: 0 missing, 0 twice"


def test_slow_consumer_is_paused_and_still_reads_everything(shown):
    *pictures, result = shown("slow_consumer", "3000")
    count, pauses = re.match(r"([\d,]+) records, (\d+) pauses", result).groups()
    assert count == "3,000"
    assert int(pauses) > 0
    assert pictures


def test_rx_between_topics_writes_an_alarm_at_each_crossing(shown):
    lines = shown("rx_between_topics")
    assert [int(re.search(r"minute +(\d+)", line).group(1)) for line in lines] == [5, 26, 65, 86, 125, 146]
    assert [line.endswith("too hot") for line in lines] == [True, False] * 3


def test_dead_letters_are_told_repaired_and_replayed(shown):
    first, *letters, last = shown("dead_letters")
    assert (first, last) == ("first run: 90", "the replayed ones: 60")
    assert [re.search(r"orders-0@(\d)", letter).group(1) for letter in letters] == ["1", "3"]


def test_every_example_is_tested():
    tested = set(re.findall(r'shown\("(\w+)"', Path(__file__).read_text()))
    assert tested == {path.stem for path in EXAMPLES.glob("*.py")}
