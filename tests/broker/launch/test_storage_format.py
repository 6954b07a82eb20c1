"""A formatted folder says of which cluster and node it is, and a node starts on it with its features."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.controller.rules.release_levels import default_levels
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id, read_folder
from streamactors.broker.metadata.metadata_record import FeatureLevel
from streamactors.broker.metadata.snapshot import BOOTSTRAP_FILE, decode_snapshot
from streamactors.cli.main import run
from tests.broker.live_broker import LiveBroker
from tests.broker.server.three_controllers import CLUSTER_ID, ThreeControllers


def test_a_broker_starts_on_a_formatted_folder(tmp_path: Path) -> None:
    made = format_folder(tmp_path / "a", 7, CLUSTER_ID)
    with LiveBroker(tmp_path / "a", {"node.id": 7}) as broker:
        assert (broker.node.cluster_id, broker.node.node_id) == (CLUSTER_ID, 7)
        broker.create_topic("t")
    found = read_folder(tmp_path / "a")
    assert found is not None
    assert found.directory_id == made.directory_id


def test_the_first_controller_begins_with_the_features_of_its_folder(tmp_path: Path) -> None:
    cluster = ThreeControllers(tmp_path)
    for node in cluster.ports:
        format_folder(tmp_path / str(node), node, CLUSTER_ID, {"metadata.version": 15})
    try:
        cluster.start(*cluster.ports)
        assert cluster.image(cluster.leader()).features == {"metadata.version": 15}
    finally:
        cluster.stop(*cluster.nodes)


@pytest.mark.parametrize(
    ("features", "level"),
    [({}, 2), ({"transaction.version": 1}, 1), ({"metadata.version": 23}, None), ({"metadata.version": 24}, 2)],
)
def test_a_new_cluster_has_transaction_version_2_unless_older_nodes_are_expected(
    tmp_path: Path, features: dict[str, int], level: int | None
) -> None:
    format_folder(tmp_path / "1", 1, CLUSTER_ID, features)
    records = decode_snapshot(tmp_path / "1" / BOOTSTRAP_FILE, (tmp_path / "1" / BOOTSTRAP_FILE).read_bytes())
    levels = {each.name: each.level for each in records if isinstance(each, FeatureLevel)}
    assert levels.get("transaction.version") == level


def test_a_new_cluster_has_the_default_features_of_the_newest_release(tmp_path: Path) -> None:
    format_folder(tmp_path / "1", 1, CLUSTER_ID)
    records = decode_snapshot(tmp_path / "1" / BOOTSTRAP_FILE, (tmp_path / "1" / BOOTSTRAP_FILE).read_bytes())
    levels = {each.name: each.level for each in records if isinstance(each, FeatureLevel)}
    expected = default_levels()
    assert levels == {name: level for name, level in expected.items() if name != "kraft.version"}
    assert levels["metadata.version"] == 33
    with LiveBroker(tmp_path / "2") as broker:  # a folder that nobody formatted
        image = broker.node.metadata.image
        assert image.features == levels
        assert image.cluster_overrides()["min.insync.replicas"] == "1"


@pytest.mark.parametrize(
    ("features", "level"),
    [({}, 1), ({"streams.version": 0}, None), ({"metadata.version": 28}, None), ({"metadata.version": 29}, 1)],
)
def test_a_new_cluster_has_streams_groups_unless_older_nodes_are_expected(
    tmp_path: Path, features: dict[str, int], level: int | None
) -> None:
    format_folder(tmp_path / "1", 1, CLUSTER_ID, features)
    records = decode_snapshot(tmp_path / "1" / BOOTSTRAP_FILE, (tmp_path / "1" / BOOTSTRAP_FILE).read_bytes())
    levels = {each.name: each.level for each in records if isinstance(each, FeatureLevel)}
    assert levels.get("streams.version") == level


@pytest.mark.parametrize(
    ("cluster_id", "features", "complaint"),
    [
        ("short", {}, "22 characters of base64url"),
        ("AAAAAAAAAAAAAAAAAAAAAA", {}, "22 characters of base64url"),
        (CLUSTER_ID, {"metadata.version": 34}, "choose 7 to 33"),
        (CLUSTER_ID, {"group.version": 2}, "choose 0 to 1"),
        (CLUSTER_ID, {"share.version": 3}, "choose 0 to 2"),
        (CLUSTER_ID, {"streams.version": 2}, "choose 0 to 1"),
        (CLUSTER_ID, {"queues.version": 1}, "have only metadata.version"),
        (
            CLUSTER_ID,
            {"metadata.version": 22, "eligible.leader.replicas.version": 1},
            "needs metadata.version=23 or more",
        ),
    ],
)
def test_impossible_values_are_refused(
    tmp_path: Path, cluster_id: str, features: dict[str, int], complaint: str
) -> None:
    with pytest.raises(BrokerStartError, match=complaint):
        format_folder(tmp_path / "a", 1, cluster_id, features)
    assert read_folder(tmp_path / "a") is None


def test_a_folder_with_other_files_and_a_formatted_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(BrokerStartError, match=r"has letter\.txt"):
        format_folder(tmp_path, 1, CLUSTER_ID)
    format_folder(tmp_path / "a", 1, CLUSTER_ID)
    with pytest.raises(BrokerStartError, match="formatted already"):
        format_folder(tmp_path / "a", 1, CLUSTER_ID)


def test_the_command_formats_by_a_properties_file_and_describes_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, cluster_id = tmp_path / "server.properties", new_cluster_id()
    file.write_text(f"node.id=4\nlog.dirs={tmp_path / 'data'}\n")
    assert run(["storage", "info", "--config", str(file)]) == 1
    assert "is not formatted" in capsys.readouterr().err
    assert run(["storage", "format", "-t", cluster_id, "-c", str(file)]) == 0
    assert run(["storage", "info", "-c", str(file)]) == 0
    told = capsys.readouterr().out
    assert f"cluster.id    {cluster_id}" in told
    assert "node.id       4" in told
    assert run(["storage", "format", "-t", cluster_id, "-c", str(file)]) != 0
    assert run(["storage", "format", "-t", cluster_id, "-c", str(file), "--ignore-formatted"]) == 0


def test_every_folder_of_a_node_is_formatted_and_described(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from streamactors.cli.clusters.storage import command

    folders = [str(tmp_path / name) for name in "ab"]
    data = [word for folder in folders for word in ("--data", folder)]
    made = CliRunner().invoke(command, ["format", "--cluster-id", new_cluster_id(), "--node-id", "4", *data])
    assert made.exit_code == 0, made.output
    assert made.output.count("formatted ") == 2
    told = CliRunner().invoke(command, ["info", *data])
    assert told.exit_code == 0, told.output
    lines = [line.split() for line in told.output.splitlines()]
    assert [words[1] for words in lines if words[0] == "folder"] == folders
    assert len({words[1] for words in lines if words[0] == "directory.id"}) == 2
