"""`Cluster`: up at once, reachable by any client, and gone without a trace."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.errors import BrokerError, BrokerStartError
from tests.broker.wire import WireClient, wait_until
from tests.loopback import OF_THIS_PROCESS
from tests.own_process import own_process

EITHER = pytest.mark.parametrize("process", [False, True], ids=["in process", "own process"])


def connect(cluster: Cluster) -> WireClient:
    host, port = cluster.bootstrap_servers.split(":")
    return WireClient(host, int(port))


def topics(cluster: Cluster) -> Mapping[str, object]:
    with connect(cluster) as client:
        return {t.name: t.topic_id for t in client.call(3, 12, {"topics": None}).topics}


def descriptors() -> set[str]:
    """Return what this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:
            pass
    return found


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@EITHER
def test_a_cluster_serves_clients_and_is_gone_after_the_block(process: bool) -> None:
    with Cluster(process=process) as cluster:
        cluster.create_topic("a", 3)
        assert set(topics(cluster)) == {"a"}
        folder, address = cluster.data_folder, cluster.bootstrap_servers
        assert folder.is_dir()
        assert (cluster.pid != os.getpid()) == process
    assert not folder.exists()
    host, port = address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5).close()


@pytest.mark.slow
@own_process
@EITHER
def test_ten_clusters_leave_no_thread_socket_process_or_file_behind(process: bool) -> None:
    with Cluster(process=process):
        pass  # what is imported and cached once is not left behind by a cluster
    threads, open_before = set(threading.enumerate()), descriptors()
    for _ in range(10 if not process else 3):
        with Cluster(process=process) as cluster, connect(cluster) as client:
            client.call(3, 12, {"topics": None})
            pid, folder = cluster.pid, cluster.data_folder
        assert not folder.exists()
        assert process != is_alive(pid)
    wait_until(lambda: set(threading.enumerate()) <= threads, "the end of the threads")
    assert descriptors() <= open_before


@EITHER
def test_data_survives_a_restart_and_the_cluster_keeps_its_id(tmp_path: Path, process: bool) -> None:
    with Cluster(data=tmp_path, process=process) as first:
        first.create_topic("kept", 3, {"retention.ms": "77"})
        first.create_topic("dropped")
        first.delete_topic("dropped")
        before, cluster_id = topics(first), first.cluster_id
    with Cluster(data=tmp_path, process=process) as second, connect(second) as client:
        assert (topics(second), second.cluster_id) == (before, cluster_id)
        resource = {"resource_type": 2, "resource_name": "kept", "configuration_keys": ["retention.ms"]}
        (config,) = client.call(32, 4, {"resources": [resource]}).results[0].configs
        assert (config.value, config.config_source) == ("77", 1)
        (topic,) = client.call(3, 12, {"topics": [{"name": "kept", "topic_id": None}]}).topics
        assert {p.leader_epoch for p in topic.partitions} == {0}


def test_after_a_crash_every_partition_has_a_new_epoch_so_that_consumers_notice_lost_records(tmp_path: Path) -> None:
    cluster = Cluster(data=tmp_path, process=True).start()
    cluster.create_topic("t")
    os.kill(cluster.pid, signal.SIGKILL)
    cluster.close()
    with Cluster(data=tmp_path) as again, connect(again) as client:
        (topic,) = client.call(3, 12, {"topics": [{"name": "t", "topic_id": None}]}).topics
        assert [p.leader_epoch for p in topic.partitions] == [1]


def test_producer_ids_are_never_given_twice_not_even_after_a_crash(tmp_path: Path) -> None:
    seen = set()
    for _ in range(2):
        cluster = Cluster(data=tmp_path, process=True).start()
        with connect(cluster) as client:
            for _ in range(3):
                answer = client.call(
                    22,
                    4,
                    {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": -1},
                )
                assert answer.error_code == 0
                seen.add(answer.producer_id)
        os.kill(cluster.pid, signal.SIGKILL)
        cluster.close()
    assert len(seen) == 6


def test_a_cluster_without_listen_listens_at_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "default_listen", "localhost:0")
    with Cluster() as by_default, Cluster(listen="127.0.0.1:0") as elsewhere:
        assert by_default.bootstrap_servers.startswith("localhost:")
        assert elsewhere.bootstrap_servers.startswith("127.0.0.1:")


def test_a_cluster_is_an_async_context_manager_too() -> None:
    async def use() -> str:
        async with Cluster() as cluster:
            cluster.create_topic("a")
            return cluster.bootstrap_servers

    assert asyncio.run(use()).startswith(f"{OF_THIS_PROCESS}:")


def test_a_killed_child_leaves_nothing_to_the_parent() -> None:
    cluster = Cluster(process=True).start()
    folder = cluster.data_folder
    os.kill(cluster.pid, signal.SIGKILL)
    cluster.close()
    assert not folder.exists()


PARENT = """
import sys, time
from streamactors.broker import Cluster
cluster = Cluster(process=True).start()
print(cluster.pid, cluster.data_folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_never_outlives_its_parent(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    assert is_alive(int(pid))
    parent.send_signal(number)
    parent.wait()
    wait_until(lambda: not is_alive(int(pid)), "the end of the orphan")
    wait_until(lambda: not Path(folder).exists(), "the removal of its folder")
    parent.stdout.close()


@pytest.mark.expects_exit_code(1, 2)
@pytest.mark.parametrize("said", [None, {"listen": ["127.0.0.1:0"]}, {"listen": ["nowhere"]}])
def test_a_child_whose_parent_ends_during_the_start_ends_silently(
    said: dict[str, object] | None, tmp_path: Path
) -> None:
    # Ctrl-C twice: the parent was gone before the child could say that it is ready, and its BrokenPipeError was shown to the user
    ours, theirs = socket.socketpair()
    if said is not None:
        arguments = {"advertise": [], "data": str(tmp_path / "data"), "settings": {}, "metrics": None, **said}
        ours.sendall(json.dumps(arguments).encode() + b"\n")
    with theirs:
        command = [sys.executable, "-m", "streamactors.broker.launch.child_process", str(theirs.fileno())]
        child = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
    ours.close()
    _, complaint = child.communicate(timeout=60)
    assert complaint == ""


def test_a_forgotten_cluster_is_closed_with_the_interpreter() -> None:
    code = "from streamactors.broker import Cluster; c = Cluster().start(); print(c.data_folder, c.bootstrap_servers)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr == ""
    folder, address = ran.stdout.split()
    assert not Path(folder).exists()
    assert address.startswith("127.0.0.1:")  # other brokers of these tests have an address of their own


FORKS = """
import os, sys, time
from streamactors.broker import Cluster
own = sys.argv[1] == "True"
with Cluster(process=own, data=sys.argv[3]) as cluster, Cluster(process=own) as other:
    if sys.argv[2] == "ends":
        ending = os.fork()
        if ending == 0:
            sys.exit()  # it leaves the block and runs the finalizers, as any forked worker does
        assert os.waitpid(ending, 0)[1] == 0
    else:
        staying = os.fork()
        if staying == 0:
            time.sleep(600)
    assert other.data_folder.is_dir()
    cluster.create_topic("a")
if sys.argv[2] == "stays":
    os.kill(staying, 9)
print("done")
"""


@EITHER
@pytest.mark.parametrize("fork", ["ends", "stays"])
def test_a_fork_of_the_process_does_not_take_the_broker_with_it(process: bool, fork: str, tmp_path: Path) -> None:
    # the fork that ended waited for threads it did not have, or removed the folder of the living broker; the one that stayed
    # held a copy of the socket whose end is the order to stop, and the broker was killed ten seconds later
    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(process), fork, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("done\n", "", 0)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


# --- what cannot be started says so, and leaves nothing behind ---


@pytest.mark.expects_exit_code(2)
@EITHER
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"config": {"num.partitions": 0}}, "Value must be at least 1"),
        ({"listen": "nonsense"}, "an address is host:port"),
        ({"brokers": 10}, "a Cluster has 1 to 9 brokers"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(process: bool, arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises((InvalidSetting, BrokerStartError), match=complaint) as caught:
        Cluster(process=process, **arguments).start()  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.expects_exit_code(2)
@EITHER
def test_a_port_in_use_is_one_clear_line(process: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerStartError, match=str(port)):
            Cluster(process=process, listen=f"127.0.0.1:{port}").start()


@pytest.mark.expects_exit_code(2)
@EITHER
def test_a_folder_in_use_by_another_broker_is_one_clear_line(tmp_path: Path, process: bool) -> None:
    with Cluster(data=tmp_path), pytest.raises(BrokerStartError, match=str(tmp_path)):
        Cluster(data=tmp_path, process=process).start()


def test_a_cluster_that_is_not_running_raises() -> None:
    cluster = Cluster()
    with pytest.raises(BrokerStartError, match="is not running"):
        _ = cluster.bootstrap_servers
    cluster.close()
    assert repr(cluster) == "<Cluster not running>"


@EITHER
def test_topics_are_created_whatever_address_is_advertised(process: bool) -> None:
    with Cluster(process=process, listen="127.0.0.1:0", advertise="broker.invalid:9092") as cluster:
        assert cluster.bootstrap_servers == "broker.invalid:9092"
        cluster.create_topic("a")
        cluster.delete_topic("a")


def test_a_topic_that_cannot_be_created_says_why() -> None:
    with Cluster() as cluster, pytest.raises(BrokerError, match="topic a b: Topic name is invalid"):
        cluster.create_topic("a b")


@own_process
def test_a_failed_start_leaves_no_thread_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    threads = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BrokerStartError):
        Cluster(listen=f"127.0.0.1:{taken.getsockname()[1]}").start()
    wait_until(lambda: set(threading.enumerate()) <= threads, "the end of the threads")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel does not list sockets here")
def test_one_node_has_no_socket_to_itself() -> None:
    """A node alone is a quorum of one: it listens, and sends nothing to itself over the network."""
    with Cluster(process=True) as cluster:
        cluster.create_topic("alone")
        folder = Path(f"/proc/{cluster.pid}/fd")
        links = []
        for each in folder.iterdir():
            with suppress(FileNotFoundError):  # the broker closes files meanwhile
                links.append(os.readlink(each))
        inodes = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ours = {row[1] for row in rows if row[9] in inodes}
        listening = {row[1] for row in rows if row[9] in inodes and row[3] == "0A"}
        assert len(listening) == 1
        assert not [row for row in rows if row[1] in ours and row[3] == "01" and row[2] in ours]
        assert not [row for row in rows if row[2] in listening and row[9] in inodes], "it is its own client"


@EITHER
def test_a_restarted_broker_has_its_address_and_its_temporary_data(process: bool) -> None:
    with Cluster(process=process, listen=["127.0.0.1:0", "INSIDE://127.0.0.1:0"]) as cluster:
        cluster.create_topic("kept")
        addresses, folder = cluster.bootstrap_servers, cluster.data_folder
        for _ in range(2):
            cluster.stop(1)
            assert folder.exists()
            cluster.start(1)
            assert (cluster.bootstrap_servers, cluster.data_folder) == (addresses, folder)
            with pytest.raises(BrokerError, match="already exists"):
                cluster.create_topic("kept")
    assert not folder.exists()


@EITHER
def test_a_restarted_broker_with_logins_knows_its_users(process: bool) -> None:
    with Cluster(process=process, users={"ann": "secret"}, acls=[]) as cluster:
        cluster.create_topic("kept")
        cluster.stop(1)
        cluster.start(1)
        with pytest.raises(BrokerError, match="already exists"):
            cluster.create_topic("kept")


def test_a_killed_broker_starts_again_and_a_stopped_one_leaves_nothing() -> None:
    with Cluster(process=True) as cluster:
        cluster.create_topic("kept")
        folder = cluster.data_folder
        cluster.kill(1)
        cluster.start(1)
        assert "kept" in topics(cluster)
        cluster.stop(1)
    assert not folder.exists()


def test_a_broker_in_this_process_cannot_be_killed() -> None:
    with Cluster() as cluster:
        with pytest.raises(BrokerStartError, match="process=True"):
            cluster.kill(1)
        with pytest.raises(BrokerStartError, match="there is no node 2; this Cluster has node 1"):
            cluster.stop(2)


def test_settings_of_a_topic_may_be_numbers() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t", config={"retention.ms": 77, "unclean.leader.election.enable": True})
        with connect(cluster) as client:
            wanted = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
            found = {each.name: each.value for each in client.call(32, 4, {"resources": [wanted]}).results[0].configs}
    assert (found["retention.ms"], found["unclean.leader.election.enable"]) == ("77", "true")
