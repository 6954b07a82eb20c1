"""The settings and the folders of several brokers of one host: `streamactors broker --processes N`."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.cluster.host_folders import ADOPTING, prepare
from streamactors.broker.cluster.host_settings import settings_of_each
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.errors import BrokerStartError


def shares(processes: int, **given: Any) -> list[dict[str, Any]]:
    ports = itertools.count(20_000, 100)
    named = {name.replace("_", "."): value for name, value in given.items()}
    return settings_of_each({"log.dirs": "/data", **named}, processes, lambda: next(ports))


def test_node_ids_ports_and_folders_count_up() -> None:
    made = shares(3, node_id="5", listeners="PLAINTEXT://localhost:9092", advertised_listeners="PLAINTEXT://a.b:19092")
    assert [each["node.id"] for each in made] == ["5", "6", "7"]
    assert [each["listeners"].split(",")[0] for each in made] == [
        f"PLAINTEXT://localhost:{port}" for port in (9092, 9093, 9094)
    ]
    assert [each["advertised.listeners"] for each in made] == [
        f"PLAINTEXT://a.b:{port}" for port in (19092, 19093, 19094)
    ]
    assert [each["log.dirs"] for each in made] == ["/data/0", "/data/1", "/data/2"]


def test_the_first_is_the_controller_of_the_others_over_loopback() -> None:
    first, second = shares(2, listeners="PLAINTEXT://0.0.0.0:9092")
    assert first["process.roles"] == "broker,controller"
    assert first["listeners"] == "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:20000"
    assert second["process.roles"] == "broker"
    assert second["controller.quorum.bootstrap.servers"] == "127.0.0.1:20000"
    assert "CONTROLLER" not in second["listeners"]


def test_there_is_one_copy_of_everything_and_the_host_is_the_rack() -> None:
    for each in shares(2):
        assert each["default.replication.factor"] == each["offsets.topic.replication.factor"] == "1"
        assert each["broker.rack"] == socket.gethostname()
    given = shares(2, default_replication_factor="2", broker_rack="a")[1]
    assert (given["default.replication.factor"], given["broker.rack"]) == ("2", "a")


def test_port_0_stands_for_free_ports() -> None:
    made = shares(2, listeners="PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0", listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT")  # fmt: skip
    assert [each["listeners"].split(",")[:2] for each in made] == [
        [f"PLAINTEXT://127.0.0.1:{20_000 + number}", f"OTHER://127.0.0.1:{20_100 + number}"] for number in range(2)
    ]


def test_members_of_another_cluster_stay_members_of_it() -> None:
    made = shares(
        2, process_roles="broker", controller_quorum_bootstrap_servers="10.0.0.1:9093", default_replication_factor="3"
    )
    assert [each["process.roles"] for each in made] == ["broker", "broker"]
    assert [each["controller.quorum.bootstrap.servers"] for each in made] == ["10.0.0.1:9093"] * 2
    assert "offsets.topic.replication.factor" not in made[0], "other hosts can have copies"


def test_one_of_several_controllers_keeps_its_vote_and_the_others_are_brokers() -> None:
    first, second = shares(
        2,
        node_id="1",
        process_roles="broker,controller",
        controller_quorum_voters="1@127.0.0.1:9093,11@127.0.0.2:9093",
        controller_listener_names="CONTROLLER",
        listeners="PLAINTEXT://127.0.0.1:9192,CONTROLLER://127.0.0.1:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    assert first["process.roles"] == "broker,controller"
    assert (second["process.roles"], second["listeners"]) == ("broker", "PLAINTEXT://127.0.0.1:9193")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"listeners": "PLAINTEXT://localhost:65535"}, "choose at most 65534"),
        (
            {
                "listeners": "PLAINTEXT://a:9092,B://a:9093",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            },
            "PLAINTEXT://a:9092 and B://a:9093 meet; leave 2 ports between them",
        ),
        (
            {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
            "name one with a login in controller.listener.names",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidSetting, match=complaint):
        shares(2, **given)


def single(folder: Path) -> None:
    """Make a folder look like that of a single broker."""
    (folder / "t-0").mkdir(parents=True)
    (folder / "t-0" / "00000000000000000000.log").write_bytes(b"records")
    (folder / "meta.properties").write_text("version=1\n")


def test_the_folder_of_a_single_broker_is_not_touched_unless_that_is_asked_for(tmp_path: Path) -> None:
    single(tmp_path)
    with pytest.raises(BrokerStartError, match="--adopt moves its data into"):
        prepare(tmp_path, 2, adopt=False)
    assert {each.name for each in tmp_path.iterdir()} == {"t-0", "meta.properties"}
    prepare(tmp_path, 2, adopt=True)
    assert {each.name for each in tmp_path.iterdir()} == {"0", ".lock"}
    assert (tmp_path / "0" / "t-0" / "00000000000000000000.log").read_bytes() == b"records"
    assert (tmp_path / "0" / "meta.properties").exists()
    prepare(tmp_path, 2, adopt=True)  # once more: there is nothing left to do


def test_a_move_that_was_interrupted_is_seen_and_goes_on(tmp_path: Path) -> None:
    """The process died when half of the partitions were moved. A single broker must not start on the other half."""
    single(tmp_path)
    (tmp_path / "meta.properties").rename(tmp_path / ADOPTING)
    (tmp_path / "0" / "u-0").mkdir(parents=True)
    with pytest.raises(BrokerStartError, match="--adopt"):
        prepare(tmp_path, 2, adopt=False)
    prepare(tmp_path, 2, adopt=True)
    assert {each.name for each in (tmp_path / "0").iterdir()} == {"t-0", "u-0", "meta.properties"}


def test_adopt_needs_a_single_brokers_folder(tmp_path: Path) -> None:
    with pytest.raises(BrokerStartError, match="leave --adopt out"):
        prepare(tmp_path, 2, adopt=True)


def test_fewer_processes_than_there_is_data_of_are_refused(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "meta.properties").touch()
    prepare(tmp_path, 4, adopt=False)
    with pytest.raises(BrokerStartError, match="start it with --processes 3, or move the partitions"):
        prepare(tmp_path, 2, adopt=False)
