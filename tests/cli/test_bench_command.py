"""`streamactors bench`: what is counted, over which time, and what is said about it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from streamactors.cli.graphs import bench
from streamactors.cli.graphs.bench import Measurement, NothingMeasured, lines, measurement
from streamactors.cli.graphs.bench_run import Count, MeasuredRun, Sample, _fields_s, cpu_s, size_of
from streamactors.cli.main import run
from streamactors.kafka import ProducerRecord

GRAPHS = """
import time
def to_sink(source):
    return source.to(Sink.ignore())
graph = to_sink(Source.repeat(b"0123456789"))
numbers = to_sink(Source.range(0, 10**12))
short = to_sink(Source.range(0, 10))
silent = to_sink(Source.never())
two = Source.repeat("four").merge(Source.repeat("sixsix")).to(Sink.ignore())
failing = to_sink(Source.repeat(0).map(lambda n: 1 // n))
"""


def samples(*rates: float, memory: int = 100, cpu: float = 0.5) -> list[Sample]:
    """One sample a second; between two of them that many records pass."""
    found = [Sample(0.0, 0, 0.0, memory)]
    for rate in rates:
        last = found[-1]
        found.append(Sample(last.at_s + 1, last.elements + int(rate), last.cpu_s + cpu, memory + len(found)))
    return found


def test_the_warm_up_is_not_measured() -> None:
    found = measurement("g", samples(10, 10, 100, 100, 100), 2, 8.0, {})
    assert (found.seconds, found.records, found.records_s, found.bytes_s) == (3.0, 300, 100.0, 800.0)
    assert (found.cpu_us_per_record, found.core_share) == (5_000.0, 0.5)
    assert (found.one_core_records_s, found.one_core_bytes_s) == (200.0, 1_600.0)
    assert (found.memory_bytes, found.memory_bytes_at_start) == (105, 100)


def test_a_run_that_ends_soon_counts_as_a_whole() -> None:
    assert measurement("g", samples(10, 20, 30), 2, None, {}).records == 60


def test_the_time_after_the_last_record_of_a_topic_does_not_count() -> None:
    found = measurement("g", samples(100, 100, 100, 100, 0, 0, 0, 0, 0), 1, None, {})
    assert (found.seconds, found.records_s) == (3.0, 100.0)


@pytest.mark.parametrize("given", [[], samples(0, 0), [Sample(0, 0, 0, 1), Sample(0.1, 9, 0.1, 1)]])
def test_too_little_is_not_measured(given: list[Sample]) -> None:
    with pytest.raises(NothingMeasured):
        measurement("g", given, 0, None, {})


def measured(**given: Any) -> Measurement:
    usual = measurement("g", samples(100, 100, 100, cpu=1.0), 1, 10.0, {"map": 0.75})
    return Measurement(**{**{name: getattr(usual, name) for name in Measurement.__slots__}, **given})


def test_a_person_reads_what_a_core_does_and_how_many_processes_a_rate_needs() -> None:
    assert lines(measured(memory_bytes=182_400_000, memory_bytes_at_start=95_000_000), 1_000) == [
        "g: 200 records in 2.0 s",
        "  records      100 /s",
        "  bytes        1.0 kB/s, keys and values",
        "  CPU          10,000.0 µs a record, 100% of a core",
        "  memory       182.4 MB at most, 95.0 MB before the first record",
        "  one core     100 records/s, 1.0 kB/s",
        "  busy         map 75%",
        "1,000 records/s need 15 processes, each with 70% of a core busy, and a topic of at least 15 partitions.",
    ]


def test_the_limit_is_named_when_it_was_not_the_graphs_own_cpu() -> None:
    assert "waited for its input" in lines(measured(core_share=0.3, queued_share=0.1), None)[-1]
    assert "Other processes used the CPU" in lines(measured(core_share=0.3, queued_share=0.6), None)[-1]
    assert lines(measured(bytes_s=None, one_core_bytes_s=None), 1)[-1].startswith("1 records/s need 1 process, ")


@pytest.mark.parametrize(
    ("element", "size"),
    [
        (b"12", 2),
        ("zwölf", 6),
        (ProducerRecord("t", b"value", b"key"), 8),
        (ProducerRecord("t", None, b"key"), 3),
        (7, None),
    ],
)
def test_the_size_of_an_element(element: object, size: int | None) -> None:
    assert size_of(element) == size


def test_bytes_of_which_some_are_unknown_are_not_known() -> None:
    assert Count(10, 4, 4, 20).bytes_each() == 5.0
    assert Count(10, 4, 3, 20).bytes_each() is None
    assert Count().bytes_each() is None


def test_the_cpu_of_this_process_and_of_a_child_grows() -> None:
    before = cpu_s()
    assert sum(n * n for n in range(300_000))
    assert cpu_s() > before
    if os.path.exists("/proc/self/stat"):
        assert _fields_s(os.getpid()) > 0
    assert _fields_s(2**22 + 1) == 0.0, "a process that has ended"


def test_it_counts_what_the_sources_emit(module: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    graphs = module(GRAPHS)
    assert run(["bench", f"{graphs}:graph", "--seconds", "0.6", "--warm-up", "0", "--for", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"] > 1_000
    assert found["bytes_s"] == pytest.approx(10 * found["records_s"])
    assert found["processes"] == 1
    assert not {"counted", "kill_switch"} & found["stages"].keys()
    assert run(["bench", f"{graphs}:numbers", "--seconds", "0.6", "--warm-up", "0"]) == 0
    assert "not known: the elements have no bytes" in capsys.readouterr().out


def test_every_source_of_a_graph_is_counted(module: Callable[[str], str]) -> None:
    from streamactors.cli.graphs.graph_module import load_graph

    with MeasuredRun(load_graph(f"{module(GRAPHS)}:two")) as running:
        while not all(count.sized for count in running.counts):
            assert not running.wait(0.01)
        assert len(running.counts) == 2
        each = running.bytes_each()
        assert each is not None
        assert 4 < each < 6


@pytest.mark.parametrize(
    ("name", "told"),
    [("short", "too short to measure"), ("silent", "no source has emitted anything"), ("failing", "ZeroDivisionError")],
)
def test_what_cannot_be_measured_is_one_line(
    module: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    told: str,
) -> None:
    monkeypatch.setattr(bench, "SECONDS_WITHOUT", 0.3)
    assert run(["bench", f"{module(GRAPHS)}:{name}", "--seconds", "1"]) == 1
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error
