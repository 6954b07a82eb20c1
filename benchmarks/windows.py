"""Event-time windows beside their own bare loops and Bytewax: the same rows, the same process run, CPU time.

1 M rows, one each millisecond, 1,000 keys; every tenth comes up to 5 s late, and grace is 2 s."""

from __future__ import annotations

import gc
import logging
import random
import shutil
import statistics
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._bare_windows import GRACE, Results, bare_sessions, bare_sliding, bare_time
from streamactors.windows import (
    BufferConfig,
    Record,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
)
from streamactors.windows.topology.chain import Records, tasks_of
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.window_task import WindowTask

ROWS, KEYS, CHUNK, REPEATS = 1_000_000, 1_000, 2_048, 5
Row = dict[str, Any]


def input_rows(count: int = ROWS, keys: int = KEYS) -> list[Record]:
    rng = random.Random(20)
    names = [f"key-{number}" for number in range(keys)]
    rows = []
    for now in range(count):
        at = max(0, now - rng.randrange(5_000)) if rng.random() < 0.1 else now
        rows.append(Record(rng.choice(names), 1, at))
    return rows


def finals(windows: Any) -> TaskFactory:
    """count + suppress(until_window_closes) as users write it."""
    grouped = Records().group_by_key().windowed_by(windows)
    table = grouped.count().suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    return tasks_of(table.to_stream())


def ours(factory: TaskFactory, rows: list[Record]) -> Results:
    task, results = factory(), []
    for at in range(0, len(rows), CHUNK):
        results.extend(task.process_chunk(rows[at : at + CHUNK]))
    return [(each.key, each.start, each.end, each.value) for each in results]


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    gc.freeze()  # the input is not what is measured
    began = time.process_time()
    result = work()
    spent = time.process_time() - began
    gc.unfreeze()
    return spent, result


def beside_bare_loop(
    name: str, windows: Any, bare: Callable[[list[Record]], Results], rows: list[Record], target: float, floor: int = 0
) -> Row:
    factory = finals(windows)
    ratios, speeds, bare_speeds = [], [], []
    for _ in range(REPEATS):
        bare_spent, wanted = cpu(lambda: bare(rows))
        spent, got = cpu(lambda: ours(factory, rows))
        assert got == wanted, f"{name}: the bare loop gives other rows"
        ratios.append(bare_spent / spent)
        speeds.append(len(rows) / spent)
        bare_speeds.append(len(rows) / bare_spent)
    return {
        "name": f"{name}, count + suppress, {len(rows):,} rows, {len(wanted):,} final rows, beside its bare loop",
        "value": round(statistics.median(speeds)),
        "unit": "rows/s",
        "peer": f"bare loop {round(statistics.median(bare_speeds)):,} rows/s",
        "ratio": round(statistics.median(ratios), 2),
        "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
        "target": f">= {target}" + (f", >= {floor:,} rows/s" if floor else ""),
    }


def beside_bytewax(rows: list[Record]) -> Row:
    import bytewax.operators as op
    import bytewax.operators.windowing as win
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    few = rows[: ROWS // 5]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    items = [(row.key, epoch + timedelta(milliseconds=row.timestamp)) for row in few]

    def theirs() -> list[Any]:
        flow = Dataflow("count")
        keyed = op.input("in", flow, TestingSource(items, batch_size=1_000))
        clock = win.EventClock(lambda at: at, wait_for_system_duration=timedelta(milliseconds=GRACE))
        windower = win.TumblingWindower(align_to=epoch, length=timedelta(seconds=10))
        counted = win.fold_window("fold", keyed, clock, windower, int, lambda count, _: count + 1, lambda a, b: a + b)
        out: list[Any] = []
        op.output("out", counted.down, TestingSink(out))
        run_main(flow)  # type: ignore[no-untyped-call]
        return out

    factory = finals(TimeWindows.of_size("10s").with_grace(GRACE))
    ratios, speeds, their_speeds = [], [], []
    for _ in range(3):
        their_spent, _ = cpu(theirs)
        spent, _ = cpu(lambda: ours(factory, few))
        ratios.append(their_spent / spent)
        speeds.append(len(few) / spent)
        their_speeds.append(len(few) / their_spent)
    return {
        "name": f"tumbling 10 s, count + suppress, {len(few):,} rows, beside Bytewax fold_window",
        "value": round(statistics.median(speeds)),
        "unit": "rows/s",
        "peer": f"bytewax {round(statistics.median(their_speeds)):,} rows/s",
        "ratio": round(statistics.median(ratios), 1),
        "spread": f"{min(ratios):.1f}–{max(ratios):.1f}",
        "target": ">= 8",
    }


def beside_kafka_streams(rows: list[Record]) -> list[Row]:
    """Beside TopologyTestDriver, where Java and Maven are: one thread's CPU time there, warm, stores in memory."""
    sources = Path(__file__).parent.parent / "tests" / "differential" / "kafka_streams"
    if not (shutil.which("java") and shutil.which("mvn") and sources.exists()):
        return []
    few = rows[: ROWS // 5]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={out / 'classpath'}"]
        subprocess.run(["mvn", "-q", "-B", f"-Dout={out}", *goals], cwd=sources, check=True, stdout=subprocess.DEVNULL)
        (out / "rows").write_text("".join(f"{row.key}\t{row.timestamp}\n" for row in few))
        command = f"BENCH\t{out / 'rows'}\t10000\t{GRACE}\n"
        runner = subprocess.run(
            ["java", "-cp", f"{out / 'classes'}:{(out / 'classpath').read_text().strip()}", "Runner"],
            input=command * 4, capture_output=True, text=True, check=True,
        )  # fmt: skip
    theirs = [int(line.split("\t")[1]) / 1e9 for line in runner.stdout.splitlines() if line.startswith("CPU")]
    factory = finals(TimeWindows.of_size("10s").with_grace(GRACE))
    spents = [cpu(lambda: ours(factory, few))[0] for _ in theirs]
    ratios = [their / spent for their, spent in zip(theirs[1:], spents[1:], strict=True)]
    return [
        {
            "name": f"tumbling 10 s, count + suppress, {len(few):,} rows, beside Kafka Streams' TopologyTestDriver",
            "value": round(len(few) / statistics.median(spents)),
            "unit": "rows/s",
            "peer": f"TopologyTestDriver {round(len(few) / statistics.median(theirs[1:])):,} rows/s",
            "ratio": round(statistics.median(ratios), 1),
            "spread": f"{min(ratios):.1f}–{max(ratios):.1f}",
            "target": ">= 3",
        }
    ]


def one_each(first: int, last: int) -> Iterator[list[Record]]:
    """Chunks of rows, one each millisecond, every one with a key of its own."""
    for at in range(first, last, CHUNK):
        ends = min(last, at + CHUNK)
        yield [Record(f"key-{now:09d}", now, now, RecordContext("input", 0, now)) for now in range(at, ends)]


def memory_of(factory: TaskFactory, rows: int) -> tuple[WindowTask, int]:
    """A task that was given `rows` rows, and the bytes it keeps alive: its own, the keys' and the contexts'."""
    gc.collect()
    tracemalloc.start()
    task = factory()
    for chunk in one_each(0, rows):
        task.process_chunk(chunk)
    del chunk
    gc.collect()
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return task, memory


def held_entries(
    name: str, factory_for: Callable[[int], TaskFactory], apart_from: TaskFactory | None = None
) -> list[Row]:
    """Bytes per entry while so many are held (without what `apart_from` keeps of the same rows), and what a row costs
    that lets one go and takes one in."""
    found = []
    costs: dict[int, float] = {}
    for held in (10_000, 100_000, 1_000_000):
        task, memory = memory_of(factory_for(held), held)
        if apart_from is not None:
            memory -= memory_of(apart_from, held)[1]
        entries = task.buffered.records
        spent, _ = cpu(partial(_process_all, task, list(one_each(held, held + 100 * CHUNK))))
        costs[held] = spent / (100 * CHUNK) * 1e6
        found.append(
            {
                "name": f"{name}: memory of each of {entries:,} entries held",
                "value": round(memory / entries),
                "unit": "bytes",
                "target": "<= 400",
            }
        )
        del task
    found.append(
        {
            "name": f"{name}: a row that lets one entry go and takes one in, 1,000,000 held beside 10,000",
            "value": round(costs[1_000_000], 2),
            "unit": "µs",
            "peer": f"10,000 held: {costs[10_000]:.2f} µs; 100,000 held: {costs[100_000]:.2f} µs",
            "ratio": round(costs[10_000] / costs[1_000_000], 2),
            "target": "does not grow",
        }
    )
    return found


def in_a_graph(rows: list[Record]) -> Row:
    """The same windows as a stage between a source and a sink, beside the bare task."""
    from streamactors import Sink, Source
    from streamactors.windows.stage.stage import WindowStage

    factory = finals(TimeWindows.of_size("10s").with_grace(GRACE))
    graph = Source.from_iterable(rows).via(WindowStage(factory)).to_mat(Sink.count(), lambda _, counted: counted)
    ratios, speeds = [], []
    for _ in range(REPEATS):
        alone, results = cpu(lambda: ours(factory, rows))
        spent, counted = cpu(lambda: graph.run().result(timeout=300))
        assert counted >= len(results)  # the end of the input flushes the last windows
        ratios.append(alone / spent)
        speeds.append(len(rows) / spent)
    return {
        "name": f"tumbling 10 s, count + suppress, {len(rows):,} rows, as a stage of a graph beside the task alone",
        "value": round(statistics.median(speeds)),
        "unit": "rows/s",
        "ratio": round(statistics.median(ratios), 2),
        "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
        "target": ">= 250,000 rows/s",
    }


def _process_all(task: WindowTask, chunks: list[list[Record]]) -> None:
    for chunk in chunks:
        task.process_chunk(chunk)


def until_closed(held: int) -> TaskFactory:
    return finals(TimeWindows.of_size("1s").with_grace(held - 1_000))


def until_limit(held: int) -> TaskFactory:
    table = Records().to_table().suppress(Suppressed.until_time_limit(held, BufferConfig.unbounded()))
    return tasks_of(table.to_stream())


def run() -> list[Row]:
    """Every row of the page."""
    logging.getLogger("streamactors.windows").setLevel(logging.ERROR)
    rows = input_rows()
    some = rows[: ROWS // 5]
    tumbling = TimeWindows.of_size("10s").with_grace(GRACE)
    hopping = tumbling.advance_by("2s")
    sessions = SessionWindows.with_gap("2s").with_grace(GRACE)
    sliding = SlidingWindows.of_difference("3s").with_grace(GRACE)
    results = [
        beside_bare_loop("tumbling 10 s", tumbling, bare_time(10_000, 10_000), rows, 0.5, 250_000),
        in_a_graph(rows),
        beside_bytewax(rows),
        *beside_kafka_streams(rows),
        beside_bare_loop("hopping 10 s by 2 s", hopping, bare_time(10_000, 2_000), some, 0.3),
        beside_bare_loop("sessions, gap 2 s", sessions, bare_sessions(2_000), some, 0.3),
        beside_bare_loop("sliding 3 s", sliding, bare_sliding(3_000), some, 0.15),
    ]
    results += held_entries("until_window_closes", until_closed)
    table = tasks_of(Records().to_table().to_stream())
    results += held_entries("until_time_limit, beyond the table's own", until_limit, apart_from=table)
    return results


if __name__ == "__main__":
    for each in run():
        print(each)
