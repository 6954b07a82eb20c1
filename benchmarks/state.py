"""Keyed state on disk beside the same state in memory and bare dicts: tables, joins, processors, restoring, and memory. CPU time."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamactors.codec import dumps
from streamactors.windows import (
    JoinWindows,
    KeyValueStore,
    Processor,
    Record,
    RecordContext,
    SessionWindows,
    TaskIdentity,
)
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import ENTRY, META_KEY, Change
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics

ROWS, KEYS, CHUNK, CUT_EVERY, REPEATS = 300_000, 1_000, 2_048, 100_000, 3
IDENTITY = TaskIdentity("bench")
CACHE = 256 << 20
Row = dict[str, Any]


def row(
    name: str, value: float, unit: str, peer: str = "", ratio: float | None = None, target: str = "", **more: Any
) -> Row:
    return {"name": name, "value": round(value), "unit": unit, "peer": peer, "ratio": ratio, "target": target, **more}


class LastSeen(Processor):
    """One read and one write of a store for each row."""

    def init(self, context: Any) -> None:
        self.context, self.seen = context, context.store("seen")

    def process(self, record: Record) -> None:
        if self.seen.get(record.key) is None:
            self.context.forward(record)
        self.seen.put(record.key, record.timestamp)


def join_table(topics: TopologyTopics) -> None:
    people = topics.table("people", name="people")
    topics.stream("orders").join_table(people, lambda order, person: (order, person)).to("out")


def count(topics: TopologyTopics) -> None:
    topics.stream("orders").group_by_key().count(name="counts").to_stream().to("out")


def stream_stream(topics: TopologyTopics) -> None:
    windows = JoinWindows.of(1_000).with_grace(1_000)
    topics.stream("orders").join(topics.stream("payments"), lambda a, b: a, windows, name="pairs").to("out")


def table_table(topics: TopologyTopics) -> None:
    left, right = topics.table("orders", name="left"), topics.table("payments", name="right")
    left.join(right, lambda a, b: a).to("out")


def foreign_key(topics: TopologyTopics) -> None:
    left, right = topics.table("orders", name="left"), topics.table("payments", name="right")
    left.join_foreign_key(right, lambda key, value: value, lambda a, b: a, name="named").to("out")


def sessions(topics: TopologyTopics) -> None:
    """Sessions that stay open."""
    windows = SessionWindows.with_gap("1d").with_grace("1d")
    topics.stream("orders").group_by_key().windowed_by(windows).count(name="n").emit_on_window_close().to_stream().to(
        "out"
    )


def processor(topics: TopologyTopics) -> None:
    topics.stream("orders").process(LastSeen, stores=[KeyValueStore("seen")]).to("out")


def rows(topic: str, amount: int, keys: int) -> list[Record]:
    rng = random.Random(3)
    names = [f"key-{number}" for number in range(keys)]
    return [Record(rng.choice(names), "x" * 90, at, RecordContext(topic, 0, at)) for at in range(amount)]


def two_topics(amount: int, keys: int) -> list[Record]:
    """Rows of orders and payments in turn, 1 ms apart; the value names a key."""
    rng = random.Random(5)
    contexts = [RecordContext("orders", 0, 0), RecordContext("payments", 0, 0)]
    return [
        Record(f"key-{rng.randrange(keys)}", f"key-{at * 7 % keys}", at, contexts[at % 2]) for at in range(amount)
    ]  # fmt: skip


def factory_of(build: Callable[[TopologyTopics], None], changelog: bool) -> TaskFactory:
    topics = TopologyTopics()
    build(topics)
    return TaskFactory(topics.topology, changelog=changelog)


def in_memory(build: Callable[[TopologyTopics], None], given: list[Record], *, changelog: bool) -> float:
    task = factory_of(build, changelog)(IDENTITY)
    began = time.process_time()
    for at in range(0, len(given), CHUNK):
        task.process_chunk(given[at : at + CHUNK])
        if changelog and at % CUT_EVERY < CHUNK:
            task.changes()
    return time.process_time() - began


def on_disk(build: Callable[[TopologyTopics], None], given: list[Record]) -> float:
    factory = factory_of(build, True)
    with tempfile.TemporaryDirectory() as folder:
        disk = TaskDisk(Rocks(Path(folder) / "0", Memory(CACHE)), factory().stores, time_first=factory.time_first)
        task = factory.restored(IDENTITY, (), DiskStores(disk, lambda: CACHE // 4))
        began = time.process_time()
        for at in range(0, len(given), CHUNK):
            task.process_chunk(given[at : at + CHUNK])
            if at % CUT_EVERY < CHUNK:
                task.changes()
                disk.commit()
        task.changes()
        disk.commit()
        took = time.process_time() - began
        disk.close()
    return took


def beside_memory(only: str = "") -> list[Row]:
    found = []
    table = [Record(f"key-{n}", n, 0, RecordContext("people", 0, n)) for n in range(KEYS)]
    orders = rows("orders", ROWS, KEYS)
    both = two_topics(ROWS // 2, KEYS)
    for name, build, given in [
        ("stream-table join", join_table, table + orders),
        ("stream-stream join", stream_stream, both),
        ("table-table join", table_table, both),
        ("foreign key join", foreign_key, both[: ROWS // 10]),
        ("count", count, orders),
        ("processor", processor, orders),
    ]:
        title = f"{name}, 1,000 keys, state on disk"
        if only not in title:
            continue
        ratios, disks, plain = [], [], []
        for _ in range(REPEATS):
            memory = in_memory(build, given, changelog=False)
            logged = in_memory(build, given, changelog=True)
            disk = on_disk(build, given)
            ratios.append(logged / disk)
            plain.append(len(given) / memory)
            disks.append(len(given) / disk)
        spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
        found.append(
            row(
                title,
                statistics.median(disks),
                "rows/CPU-s",
                f"the same in memory with its entries: {statistics.median(plain):,.0f} without them",
                round(statistics.median(ratios), 2),
                ">= 0.5 of memory",
                spread=spread,
            )
        )
    return found


def restoring(amount: int = 500_000) -> list[Row]:
    """Entries that a changelog reader hands over, until the task is ready."""
    factory = factory_of(count, True)
    (store,) = factory().stores
    task = factory(IDENTITY)
    task.process_chunk([Record("a", 1, 5, RecordContext("orders", 0, 0))])
    meta = next(change.value for change in task.changes() if change.key == META_KEY)
    entries = [(META_KEY, meta)]
    entries += [(ENTRY + b"key-%d" % n, dumps([f"key-{n}", n, 5])) for n in range(amount)]
    began = time.process_time()
    factory.restored(IDENTITY, [Change(store, key, value) for key, value in entries])
    memory = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        disk = TaskDisk(Rocks(Path(folder) / "0", Memory(CACHE)), [store])
        began = time.process_time()
        for at in range(0, len(entries), 10_000):
            disk.replay(store, entries[at : at + 10_000], at)
        factory.restored(IDENTITY, (), DiskStores(disk, lambda: CACHE // 4))
        filled = time.process_time() - began
        disk.close()
        began, wall = time.process_time(), time.perf_counter()
        disk = TaskDisk(Rocks(Path(folder) / "0", Memory(CACHE)), [store])
        again = factory.restored(IDENTITY, (), DiskStores(disk, lambda: CACHE // 4))
        again.process_chunk([Record("key-7", 1, 5, RecordContext("orders", 0, 0))])
        first = time.perf_counter() - wall
        disk.close()
    return [
        row("restore into memory", amount / memory, "entries/CPU-s", target=">= 300,000"),
        row("restore to an empty disk", amount / filled, "entries/CPU-s", target=">= 300,000"),
        row(
            f"restart with {amount:,} keys on disk, to the first result",
            first * 1_000,
            "ms",
            target="<= 5,000 with 1 M keys",
        ),
    ]


MANY = """
import resource, sys, tempfile, time
from pathlib import Path
from benchmarks import state
from streamactors.windows import Record, RecordContext
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
keys, cache = int(sys.argv[1]), 256 << 20
factory = state.factory_of(getattr(state, sys.argv[2]), True)
with tempfile.TemporaryDirectory() as folder:
    disk = TaskDisk(Rocks(Path(folder) / "0", Memory(cache)), factory().stores, time_first=factory.time_first)
    stores = DiskStores(disk, lambda: cache // 4)
    task = factory.restored(state.IDENTITY, (), stores)
    began = time.process_time()
    for at in range(0, keys, 2048):
        rows = [Record(f"key-{n * 2654435761 % keys}", 1, n, RecordContext("orders", 0, n)) for n in range(at, min(keys, at + 2048))]
        task.process_chunk(rows)
        if stores.pressed or at % 200_000 < 2048:
            task.changes()
            disk.commit()
    task.changes()
    disk.commit()
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(keys / took, peak, disk.rocks.bytes_on_disk >> 20)
    disk.close()
"""


def many_keys(keys: int = 20_000_000, build: Callable[[TopologyTopics], None] = count, what: str = "") -> list[Row]:
    """Every key once, through a cache of 256 MB."""
    command = [sys.executable, "-c", MANY, str(keys), build.__name__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rate, peak, size = done.stdout.split()
    name = f"{what}{keys:,} keys through a cache of 256 MB"
    return [
        row(f"{name}: peak memory", float(peak), "MB", target="<= 700"),
        row(name, float(rate), "rows/CPU-s", f"{size} MB on disk"),
    ]


def run(only: str = "") -> list[Row]:
    """Every row of the page, or those whose names have the text `only`. `20,000,000 keys` takes 12 minutes and is no part of every row."""
    rows = beside_memory(only)
    restores = "restore into memory, restore to an empty disk, restart with 500,000 keys on disk, to the first result"
    if only in restores:
        rows += [each for each in restoring() if only in each["name"]]
    for keys, build, what in [(2_000_000, count, ""), (1_500_000, sessions, "sessions, ")]:
        if only in f"{what}{keys:,} keys through a cache of 256 MB: peak memory":
            rows += many_keys(keys, build, what)
    if only.startswith("20,000,000 keys"):
        rows += many_keys()
    return rows
