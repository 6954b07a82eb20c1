"""Draw the pictures of docs/joins.md, docs/tables.md and docs/state.md from real runs: `python -m docs.draw_tables` (needs matplotlib and rocksdict).

joins-semantics: the rows of a left join and what each semantics gave. tables-groups: the entries of a table and a group of it. state-restarts:
how many entries of the changelog each start of a run read, in memory and on disk."""

from __future__ import annotations

import logging
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from streamactors import Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.testing import TopologyDriver
from streamactors.windows import JoinWindows, State

IMAGES = Path(__file__).parent / "images"
SIDES = {"left": "#2b7a78", "right": "#d98e04"}
NO_MATCH = "#b3261e"
CITIES = {"London": "#2b7a78", "Paris": "#d98e04", "Rome": "#6a4c93"}
JOINED = [
    ("left", "a", "l1", 2), ("left", "b", "l2", 30), ("right", "a", "r1", 9), ("right", "b", "r2", 36),
    ("left", "c", "l3", 20), ("right", "c", "r3", 24), ("right", "d", "r4", 60), ("right", "b", "r5", 31),
]  # fmt: skip
MOVES = [("ada", "London", 1), ("bob", "Paris", 4), ("cy", "London", 7), ("ada", "Paris", 11), ("bob", None, 15), ("dan", "Rome", 18), ("cy", "Rome", 22)]  # fmt: skip
ROUNDS, ROWS = 5, 4_000


def _both(left: str, right: str | None) -> tuple[str, str | None]:
    return left, right


def draw_joins() -> None:
    """The same rows in strict and in Kafka's semantics."""
    figure, both = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for axes, semantics in zip(both, ("strict", "kafka"), strict=True):
        windows = JoinWindows.of("8ms").with_grace("4ms")
        driver = TopologyDriver(
            lambda topics, windows=windows: topics.stream("left").join(
                topics.stream("right"), _both, windows, how="left"
            ),
            semantics=semantics,
        )
        for at, (side, key, value, time) in enumerate(JOINED):
            dropped = driver.dropped
            outputs = driver.pipe(side, key, value, timestamp=time)
            late = driver.dropped > dropped
            axes.scatter([time], [at], color=SIDES[side], marker="x" if late else "o", s=40, zorder=3)
            axes.text(
                time - 0.8, at, f"{value}, key {key}" + (": late" if late else ""), fontsize=8, ha="right", va="center"
            )
            told = [f"({left}, {right or 'nothing'})" for left, right in (each.record.value for each in outputs)]
            for place, text in enumerate(told):
                colour = NO_MATCH if "nothing" in text else "black"
                axes.text(66 + 14 * place, at, text, fontsize=8, va="center", color=colour)
        axes.set_title(f'semantics="{semantics}"', loc="left", fontsize=11)
        axes.set_xlim(-12, 96)
        axes.set_xticks(range(0, 61, 10))
        axes.set_xlabel("event time; on the right the results that the row gave")
        axes.grid(axis="x", color="#eeeeee")
    both[0].set_ylim(len(JOINED) - 0.4, -0.8)
    both[0].set_yticks([])
    both[0].set_ylabel("rows of both sides, as they came")
    _save(figure, "joins-semantics")


def draw_tables() -> None:
    """Where people live, and how many live in each city."""
    driver = TopologyDriver(
        lambda topics: topics.table("people", name="people").group_by(lambda key, city: (city, 1)).aggregate(
            int, add=lambda n, one: n + one, subtract=lambda n, one: n - one
        )
    )  # fmt: skip
    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(9, 4.4), height_ratios=[4, 4])
    end = MOVES[-1][2] + 4
    people = list(dict.fromkeys(person for person, _, _ in MOVES))
    counts: dict[str, list[tuple[int, int]]] = {city: [(0, 0)] for city in CITIES}
    for person, city, time in MOVES:
        for output in driver.pipe("people", person, city, timestamp=time):
            counts[output.record.key].append((time, output.record.value))
    for lane, person in enumerate(people):
        stays = [(city, time) for who, city, time in MOVES if who == person] + [(None, end)]
        for (city, since), (_, until) in pairwise(stays):
            if city is not None:
                above.barh(lane, until - since, left=since, height=0.6, color=CITIES[city], alpha=0.8)
                above.text(since + 0.2, lane, city, fontsize=8, va="center", color="white")
    above.set_yticks(range(len(people)), people)
    above.invert_yaxis()
    above.set_title("a table: the latest value of each key; None deletes (bob, at 15)", loc="left", fontsize=10)
    for shift, (city, steps) in enumerate(counts.items()):
        times, values = zip(*steps, (end, steps[-1][1]), strict=True)
        below.step(times, [n + 0.05 * shift for n in values], where="post", color=CITIES[city], linewidth=2, label=city)
    below.set_title("group_by(city): each move subtracts from one group and adds to the other", loc="left", fontsize=10)
    below.set_yticks(range(3))
    below.set_xlabel("stream time")
    below.legend(loc="upper left", fontsize=8, frameon=False)
    _save(figure, "tables-groups")


class _Restored(logging.Handler):
    """Adds up the entries that a start has read."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    def emit(self, record: logging.LogRecord) -> None:
        told = re.search(r"restored (\d+) entries", record.getMessage())
        self.entries += int(told[1]) if told else 0


def restarts(cluster: Cluster, place: State, group: str) -> list[int]:
    """Count keys in several runs, one after the other; return the entries that each start has read."""
    cluster.create_topic(group)
    settings = ConsumerSettings(cluster.bootstrap_servers, group, "earliest", state=place)
    log, heard, found = logging.getLogger("streamactors.kafka"), _Restored(), []
    log.addHandler(heard)
    log.setLevel(logging.INFO)
    log.propagate = False
    for number in range(ROUNDS):
        records = [ProducerRecord(group, b"1", b"%d-%d" % (number, n)) for n in range(ROWS)]
        Source.from_iterable(records).run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(
            60
        )
        words = Consumer.records(settings, Subscriptions.topics(group), key="string", until="end")
        words.group_by_key().count(name="counts").to_stream().run_with(Sink.ignore()).result(120)
        found.append(heard.entries)
        heard.entries = 0
    log.removeHandler(heard)
    return found


def draw_state() -> None:
    """What a start reads, by the number of keys that are there."""
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        read: dict[str, Any] = {
            "State.in_memory()": restarts(cluster, State.in_memory(), "memory"),
            "State.on_disk(…)": restarts(cluster, State.on_disk(folder, cache="16MB"), "disk"),
        }
    figure, axes = pyplot.subplots(figsize=(8, 3.4))
    for shift, (name, entries) in enumerate(read.items()):
        bars = axes.bar(
            [n + 0.4 * shift for n in range(ROUNDS)], entries, width=0.36, color=list(SIDES.values())[shift], label=name
        )
        axes.bar_label(bars, labels=[f"{n:,}" for n in entries], fontsize=8)
    axes.set_xticks([n + 0.2 for n in range(ROUNDS)], [f"{n * ROWS:,} keys" for n in range(ROUNDS)])
    axes.set_title("entries of the changelog that a start reads", loc="left", fontsize=11)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _save(figure, "state-restarts")


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(IMAGES / f"{name}.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Draw them all."""
    logging.getLogger("streamactors.windows").setLevel(logging.ERROR)
    IMAGES.mkdir(exist_ok=True)
    draw_joins()
    draw_tables()
    draw_state()


if __name__ == "__main__":
    main()
