"""`streamactors run --processes N`: members of one group, supervised, drained together, with one metrics endpoint."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request

from streamactors import Source
from streamactors.broker import Cluster
from streamactors.cli.main import run
from streamactors.kafka import ConsumerSettings, MetadataClient, Producer, ProducerRecord, ProducerSettings

GRAPH = """
import os, sys
from streamactors import *
from streamactors.kafka import *

settings = ConsumerSettings({servers!r}, group_id="members", auto_offset_reset="earliest",
                            properties={{"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}})

def note(record):
    # one write for the line: what `print` writes in pieces mixes with the other member's, or is cut by the kill
    os.write(1, f"{{os.getpid()}} {{record.partition}} {{record.value.decode()}}\\n".encode())

graph = Consumer.source(settings, Subscriptions.topics("numbers")).to_mat(Sink.foreach(note), Keep.right)
alone = Source.range(0, 3).to(Sink.ignore())
"""


class Lines:
    """The lines of a process, read on a thread; `until` waits for what they show."""

    def __init__(self, stream):
        self.lines = []
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream):
        for line in stream:
            with self._news:
                self.lines.append(line.strip())
                self._news.notify_all()

    def until(self, shown):
        with self._news:
            assert self._news.wait_for(lambda: shown(self.lines), 30), "\n".join(self.lines)


def write(cluster, numbers, partitions):
    records = Source.from_iterable(numbers).map(lambda n: ProducerRecord("numbers", str(n), partition=n % partitions))
    records.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(30)


def scraped(port, token):
    url, headers = f"http://127.0.0.1:{port}/metrics", {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return answer.read().decode()


def test_two_members_share_the_partitions_a_killed_one_comes_back_and_sigterm_drains_both(tmp_path):
    with Cluster() as cluster:
        cluster.create_topic("numbers", 4)
        (tmp_path / "graph_of_members.py").write_text(GRAPH.format(servers=cluster.bootstrap_servers))
        port = free_port()
        command = [sys.executable, "-m", "streamactors.cli.main", "run", "graph_of_members:graph", "--processes", "2"]
        with subprocess.Popen(
            [*command, "--metrics-port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        ) as parent:
            out, err = Lines(parent.stdout), Lines(parent.stderr)
            try:
                written = 0
                while len({line.split()[0] for line in out.lines[-8:]}) < 2:  # until both have partitions
                    write(cluster, range(written, written + 8), 4)
                    written += 8
                    out.until(lambda lines, n=written: len(lines) >= n)
                told = next(line for line in err.lines if "Authorization: Bearer" in line)
                metrics = scraped(port, told.partition("Bearer ")[2].partition("`")[0])
                assert 'streamactors_member_up{member="0"} 1.0' in metrics
                assert 'streamactors_member_up{member="1"} 1.0' in metrics
                assert re.search(r'streamactors_kafka_delivered_total\{.*member="[01]"', metrics)

                os.kill(int(out.lines[-1].split()[0]), signal.SIGKILL)
                err.until(
                    lambda lines: any("was killed by signal 9 (SIGKILL); started again in" in line for line in lines)
                )
                write(cluster, range(written, written + 8), 4)
                written += 8
                everything = {str(n) for n in range(written)}
                out.until(lambda lines: everything <= {line.split()[2] for line in lines})
            finally:
                parent.send_signal(signal.SIGTERM)
            assert parent.wait(60) == 0, err.lines
            err.until(lambda lines: any("is drained in 2 processes" in line for line in lines))
            assert any(line.startswith("streamactors[1]: running") for line in err.lines)
        with MetadataClient(ConsumerSettings(cluster.bootstrap_servers, group_id="members")) as metadata:
            committed = metadata.committed([("numbers", i) for i in range(4)])
        assert committed == {("numbers", i): written // 4 for i in range(4)}


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_graph_that_shares_nothing_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "graph_alone.py").write_text(GRAPH.format(servers="localhost:1"))
    monkeypatch.chdir(tmp_path)
    assert run(["run", "graph_alone.py:alone", "--processes", "2"]) == 1
    assert "source 'range' does not share its partitions in a consumer group" in capsys.readouterr().err


def test_members_that_fail_again_and_again_are_given_up(tmp_path, monkeypatch, capfd):
    with Cluster() as cluster:
        cluster.create_topic("numbers", 2)
        write(cluster, range(4), 2)
        text = GRAPH.format(servers=cluster.bootstrap_servers).replace("os.write(1, ", "os.write(1 // 0, ")
        (tmp_path / "graph_failing.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        assert run(["run", "graph_failing.py:graph", "--processes", "2", "--restarts", "1"]) == 1
    err = capfd.readouterr().err
    assert "ended with exit code 1; started again in 0." in err
    assert "ended with exit code 1, after 1 restarts in a row; given up" in err
    assert "ended with exit code 1" in err.splitlines()[-1]
    assert err.endswith("its own lines above say why\n")
    assert "killed by signal" not in err, "the other member may not have begun yet when it is asked to end"
    assert "ZeroDivisionError" in err


def test_members_have_transactional_ids_of_their_own(monkeypatch):
    settings = ProducerSettings("localhost:1", transactional_id="copy")
    assert settings.client_properties()["transactional.id"] == "copy"
    monkeypatch.setenv("STREAMACTORS_MEMBER", "1")
    assert settings.client_properties()["transactional.id"] == "copy-1"
