"""A commit of a transaction waits for the other sinks of the run. A wait that takes long is said."""

from __future__ import annotations

import logging

from streamactors import Flow, Keep, Sink
from streamactors.kafka import ProducerRecord, ProducerSettings, Transactional
from streamactors.kafka.transactions import other_sinks
from tests.kafka._windows import produce
from tests.kafka.test_changelog_silence import records, settings_of


def test_a_commit_that_waits_long_for_another_sink_says_so_once(
    cluster, system, wait_for, committed_of, monkeypatch, caplog
):
    monkeypatch.setattr(other_sinks, "TOLD_AFTER_MS", 100.0)
    produce(cluster, "waits", [(0, "a", 5_000), (0, "b", 5_000), (0, "c", 5_000)], 1)
    cluster.create_topic("out-waits", partitions=1)
    writing = ProducerSettings(cluster.bootstrap_servers, transactional_id="waits", commit_interval_ms=20)
    found = []
    rows = records(settings_of(cluster, "waits"), "waits").also_to(
        Flow.grouped(4).to(Sink.foreach(found.append).named("groups"))
    )
    written = rows.map(lambda row: ProducerRecord("out-waits", b"1", row.key))

    def told():
        return [each.getMessage() for each in caplog.records if "a commit has waited" in each.getMessage()]

    with caplog.at_level(logging.WARNING, "streamactors.kafka"):
        control, done = written.to_mat(Transactional.sink(writing), Keep.both).run(system)
        wait_for(told)
        assert "transactional id waits: a commit has waited for 0.1 s, because groups of the same run" in told()[0]
        produce(cluster, "waits", [(0, "d", 5_000)], 1)
        wait_for(lambda: committed_of("waits") == 4)
        produce(cluster, "waits", [(0, "e", 5_000)], 1)
        control.shutdown()
        done.result(30)
        control.is_shutdown.result(30)
    assert len(told()) == 1
    assert [len(group) for group in found] in ([4], [4, 1])
