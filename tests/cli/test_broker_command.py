"""`streamactors broker`: one line when ready, a clean stop, and one line with exit code 2 for every bad start."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.wire import WireClient

COMMAND = [sys.executable, "-m", "streamactors.cli.main", "broker"]
READY = re.compile(
    r"streamactors broker ready: (?P<listeners>.+), data in (?P<folder>\S+)(?P<remark>.*), cluster id (?P<id>\S+)\n"
)


class Running:
    """A broker command that is ready."""

    def __init__(self, process: subprocess.Popen[str], line: str) -> None:
        match = READY.fullmatch(line)
        assert match is not None, line
        self.process = process
        self.listeners = match["listeners"].split(", ")
        self.folder = Path(match["folder"])
        self.remark = match["remark"]
        self.cluster_id = match["id"]

    def port(self, number: int = 0) -> int:
        return int(self.listeners[number].rpartition(":")[2])


@contextmanager
def broker(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Running]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Running(process, line)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def fails(*arguments: str) -> str:
    """Run a broker that cannot start; return its one line of complaint."""
    ran = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2, (ran.returncode, ran.stderr)
    assert ran.stdout == ""
    assert ran.stderr.startswith("streamactors: ")
    assert ran.stderr.count("\n") == 1
    return ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_says_when_it_is_ready_and_stops_cleanly_on_a_signal(number: signal.Signals) -> None:
    inherited = signal.signal(number, signal.SIG_DFL) if number is signal.SIGHUP else None  # ignored under nohup
    with broker("--listen", "127.0.0.1:0") as running:
        if inherited is not None:
            signal.signal(number, inherited)
        assert "temporary" in running.remark
        assert running.folder.is_dir()
        with WireClient("127.0.0.1", running.port()) as client:
            assert client.call(3, 12, {"topics": None}).cluster_id == running.cluster_id
        running.process.send_signal(number)
        assert running.process.wait(20) == 0
        assert not running.folder.exists()
        assert running.process.stderr is not None
        assert running.process.stderr.read() == ""


STOPPED_EARLY = """
import os, signal, sys
from streamactors.broker.launch import startup

made = startup.tempfile.mkdtemp
def make_and_be_asked_to_stop(**options):
    folder = made(**options)
    class Importing:  # what is imported after that is the broker: somebody has had enough meanwhile
        def find_spec(self, name, *rest):
            if name == "streamactors.broker.server.server":
                os.kill(os.getpid(), signal.SIGTERM)
    sys.meta_path.insert(0, Importing())
    return folder
startup.tempfile.mkdtemp = make_and_be_asked_to_stop
from streamactors.cli.main import main
main(["broker", "--listen", "127.0.0.1:0"])
"""


def test_a_signal_while_it_starts_ends_it_and_leaves_no_folder(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", STOPPED_EARLY]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_under_nohup_it_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the child inherits it
    try:
        with broker("--listen", "127.0.0.1:0") as running:
            running.process.send_signal(signal.SIGHUP)
            with WireClient("127.0.0.1", running.port()) as client:
                assert client.call(18, 0, {}).error_code == 0
            running.process.terminate()
            assert running.process.wait(20) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.expects_log("cannot print (")
@pytest.mark.parametrize("unread", ["a full disk", "a pipe that nobody reads"])
def test_it_serves_on_when_its_line_cannot_be_printed(unread: str) -> None:
    port = free_port()
    if unread == "a full disk":
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, output = os.pipe()
        os.close(reading)
    with subprocess.Popen(
        [*COMMAND, "--listen", f"127.0.0.1:{port}"], stdout=output, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(output)
        assert process.stderr is not None
        assert (
            f"cannot print ({'No space left on device' if unread == 'a full disk' else 'Broken pipe'})"
            in process.stderr.readline()
        )
        with WireClient("127.0.0.1", port) as client:
            assert client.call(18, 0, {}).error_code == 0
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_data_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    ids = set()
    for _ in range(2):
        with broker("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")) as running:
            assert running.remark == ""
            assert running.folder == tmp_path / "data"
            ids.add(running.cluster_id)
            running.process.terminate()
            assert running.process.wait(20) == 0
    assert len(ids) == 1
    assert (tmp_path / "data" / "meta.properties").exists()


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
@pytest.mark.parametrize("name", ["localhost", "LocalHost"])
def test_localhost_is_both_loopback_addresses(name: str) -> None:
    with broker("--listen", f"{name}:0") as running:
        for host in ("127.0.0.1", "::1"):
            with WireClient(host, running.port()) as client:
                assert client.call(18, 0, {}).error_code == 0


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_ipv6_address_is_told_in_brackets() -> None:
    with broker("--listen", "[::1]:0") as running:
        assert running.listeners == [f"PLAINTEXT://[::1]:{running.port()}"]
        assert f"PLAINTEXT://[::1]:{running.port()}: port" in fails("--listen", f"[::1]:{running.port()}")


def test_several_listeners_with_names_and_advertised_addresses() -> None:
    with broker(
        "--listen", "127.0.0.1:0", "--listen", "DOCKER://127.0.0.1:0", "--advertise", "DOCKER://host.docker.internal:4711"
    ) as running:  # fmt: skip
        assert running.listeners[1] == "DOCKER://host.docker.internal:4711"
        with WireClient("127.0.0.1", running.port()) as client:
            (told,) = client.call(3, 12, {"topics": []}).brokers
            assert (told.host, told.port) == ("127.0.0.1", running.port())


def auto_created(client: WireClient, name: str) -> Any:
    """Ask for a topic, as a client does, until it has been created; return that answer."""
    wanted = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": True}
    while (answer := client.call(3, 12, wanted)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        pass
    return answer


@pytest.mark.expects_log("has no effect")
def test_a_server_properties_file_is_read_and_single_settings_win_over_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=7\ncontroller.quorum.voters=7@localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"log.dirs={tmp_path / 'logs'}\nnum.partitions=3\nnum.io.threads=8\n"
    )
    with broker("--config", str(file), "--set", "num.partitions=5", "--log-level", "warning") as running:
        assert running.folder == tmp_path / "logs"
        with WireClient("127.0.0.1", running.port()) as client:
            answer = auto_created(client, "t")
            assert len(answer.topics[0].partitions) == 5
            assert answer.brokers[0].node_id == 7
        running.process.terminate()
        running.process.wait(20)
        assert running.process.stderr is not None
        assert "num.io.threads has no effect" in running.process.stderr.read()


def test_metrics_and_a_ready_probe_are_served_over_http(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    port = free_port()
    served = ("--metrics-port", str(port), "--metrics-token-file", str(tmp_path / "token"))
    with broker("--listen", "127.0.0.1:0", *served) as running:
        with WireClient("127.0.0.1", running.port()) as client:
            auto_created(client, "t")
            url, token = f"http://127.0.0.1:{port}/metrics", {"Authorization": "Bearer s3cret"}
            with urllib.request.urlopen(urllib.request.Request(url, headers=token), timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        assert "streamactors_broker_topics 1.0" in lines
        assert "streamactors_broker_connections 1.0" in lines
        assert 'streamactors_broker_log_bytes{topic="t"} 0.0' in lines
        assert 'streamactors_broker_purgatory_delayed_requests{purgatory="Fetch"} 0.0' in lines
        for probe, word in (("live", b"live\n"), ("ready", b"ready\n")):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{probe}", timeout=10) as answer:
                assert answer.read() == word
        ready = f"http://127.0.0.1:{port}/ready"
        with urllib.request.urlopen(urllib.request.Request(ready, headers=token), timeout=10) as answer:
            assert answer.read() == b"ready\n"
        probe = urllib.request.Request(ready, headers=token, method="HEAD")
        with urllib.request.urlopen(probe, timeout=10) as answer:
            assert (answer.status, answer.read()) == (200, b"")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/x", headers=token), timeout=10)


def test_metrics_without_a_token_file_have_a_token_that_the_start_tells() -> None:
    port = free_port()
    with broker("--listen", "127.0.0.1:0", "--metrics-port", str(port)) as running:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(30)
        assert running.process.stderr is not None
        assert re.search(r"/metrics asks for `Authorization: Bearer \S{32}`", running.process.stderr.read())


# --- bad starts ---


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"{port}" in fails("--listen", f"127.0.0.1:{port}")


def test_a_metrics_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "choose another --metrics-port" in fails("--listen", "127.0.0.1:0", "--metrics-port", str(port))


def test_a_folder_in_use_by_another_broker(tmp_path: Path) -> None:
    with Cluster(data=tmp_path):
        assert str(tmp_path) in fails("--listen", "127.0.0.1:0", "--data", str(tmp_path))


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    # the error named the voters in a folder below the file, which the user had never seen, and repeated the path three times
    assert f"cannot use the data folder {file}: Not a directory; choose another" in fails("--data", str(file))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert str(tmp_path) in fails("--listen", "127.0.0.1:0", "--data", str(tmp_path))


def test_a_folder_with_a_file_where_a_partition_was(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("a")
    shutil.rmtree(tmp_path / "a-0")
    (tmp_path / "a-0").touch()
    assert f"cannot use the data folder {tmp_path}: " in fails("--listen", "127.0.0.1:0", "--data", str(tmp_path))


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("\xff not properties")
    assert str(tmp_path) in fails("--listen", "127.0.0.1:0", "--data", str(tmp_path))


def test_a_folder_of_another_node(tmp_path: Path) -> None:
    with Cluster(data=tmp_path):
        pass
    assert "node" in fails("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--set", "node.id=5")


def test_a_folder_whose_metadata_is_damaged(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("a")
        host, port = cluster.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as client:
            records = bytes(build_batch([NewRecord(None, b"precious")]))
            data = [{"name": "a", "partition_data": [{"index": 0, "records": records}]}]
            client.call(0, 9, {"acks": -1, "timeout_ms": 5_000, "topic_data": data})
    log = next((tmp_path / "__cluster_metadata-0").glob("*.log"))
    log.write_bytes(b"")
    assert "a-0, which its metadata does not know" in fails("--listen", "127.0.0.1:0", "--data", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--set", "num.partitions=x"], "Not a number of type INT"),
        (["--set", "num.partitions"], "its form is key=value"),
        (["--set", "ssl.engine.factory.class=x"], "this broker does not have it"),
        (["--listen", "TLS://localhost:0"], "TLS is SSL://, with logins SASL_SSL://"),
        (["--listen", "SASL_SLL://localhost:0"], "SASL_SLL has no protocol; add SASL_SLL:PROTOCOL"),
        (["--listen", "SSL://localhost:0"], "a TLS listener needs a certificate and its key"),
        (["--listen", "SASL_PLAINTEXT://localhost:0"], "set sasl.enabled.mechanisms=SCRAM-SHA-512"),
        (["--add-scram", "SCRAM-SHA-1=[name=a,password=b]"], "--add-scram: its form is SCRAM-SHA-256=[name=USER"),
        (["--listen", "nonsense"], "an address is host:port"),
        (["--listen", "256.0.0.1:0"], "256.0.0.1"),
        (["--advertise", "0.0.0.0:1"], "clients cannot connect to every interface"),
        (["--data", ""], "--data is empty: name a folder"),
        (["--metrics-port", "x"], "--metrics-port=x: an address is host:port"),
        (["--config", "no-such-file"], "no-such-file: No such file or directory"),
        (["--log-level", "loud"], "loud"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_arguments(arguments: list[str], complaint: str) -> None:
    assert complaint in fails(*arguments)


def test_a_bad_start_leaves_no_folder_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    fails("--set", "num.partitions=0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        fails("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert list(tmp_path.iterdir()) == []
