"""What 0.1.0 has left on disk is read by this version: records, transactions, groups, changelogs and state. `record_0_1.py` has made the folders."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep, RunnableGraph, Sink, Source, StreamFuture
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    Control,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.connection import ClientConnection
from streamactors.windows import State, TimeWindows

RECORDED = Path(__file__).with_name("0.1.0.tar.gz")
COMMITTED = {"isolation.level": "read_committed"}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the first answer of a broker may take longer than a user would like to wait."""
    monkeypatch.setattr(ClientConnection, "silence_ms", 60_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def servers(folder: Path) -> Iterator[str]:
    with Cluster(data=folder / "broker") as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(params=["on disk", "from changelogs"])
def state(folder: Path, request: pytest.FixtureRequest) -> Any:
    """The state of a table: its folder of 0.1.0, or memory, which reads the changelogs of 0.1.0."""
    return lambda name: State.on_disk(folder / "state" / name) if request.param == "on disk" else State.in_memory()


def read(servers: str, topic: str, group: str) -> list[ConsumerRecord]:
    settings = ConsumerSettings(servers, group, "earliest", properties=COMMITTED)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    return done(source.to_mat(Sink.to_list(), Keep.both))


def done(graph: RunnableGraph[tuple[Control, StreamFuture[Any]]]) -> Any:
    """Run a graph to its end; return its result when the offsets are committed and the consumer has left its group."""
    control, result = graph.run()
    control.is_shutdown.result(60)
    return result.result(60)


def write(servers: str, *records: ProducerRecord) -> None:
    Source.from_iterable(records).run_with(Producer.plain_sink(ProducerSettings(servers))).result(60)


def test_records_transactions_and_offsets_are_there(servers: str) -> None:
    assert [record.key for record in read(servers, "words", "new")] == [b"ada", b"bob", b"ada"]
    counts = [(record.key, record.value) for record in read(servers, "word-counts", "new")]
    assert sorted(counts)[-1] == (b"bob", b"1")
    assert (b"ada", b"2") in counts
    assert read(servers, "words", "reading") == [], "the group has committed the end"
    write(servers, ProducerRecord("words", b"1", b"cy"))
    assert [record.key for record in read(servers, "words", "reading")] == [b"cy"]


def test_a_table_continues_with_its_counts(servers: str, state: Any) -> None:
    write(servers, ProducerRecord("words", b"1", b"ada"), ProducerRecord("words", b"1", b"cy"))
    settings = ConsumerSettings(servers, "counting", "earliest", state=state("words"))
    done(
        Consumer.records(settings, Subscriptions.topics("words"), key="string", until="end")
        .group_by_key()
        .count(name="words")
        .to_stream()
        .map(lambda count: ProducerRecord("word-counts", str(count.value), count.key))
        .to_mat(Transactional.sink(ProducerSettings(servers, transactional_id="counting")), Keep.both)
    )
    newest = {record.key: record.value for record in read(servers, "word-counts", "new")}
    assert newest == {b"ada": b"3", b"bob": b"1", b"cy": b"1"}


def test_windows_continue_with_their_counts(servers: str, state: Any) -> None:
    write(servers, ProducerRecord("visits", b"1", b"ada", timestamp=40))
    settings = ConsumerSettings(servers, "hourly", "earliest", state=state("visits"))
    counts = done(
        Consumer.records(settings, Subscriptions.topics("visits"), key="string", until="end")
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1h").with_grace("1h"))
        .count(name="visits")
        .to_stream()
        .to_mat(Sink.to_list(), Keep.both)
    )
    assert [(each.key, each.start, each.value) for each in counts] == [("ada", 0, 3)]
