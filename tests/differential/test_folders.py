"""Two data folders at an Apache broker and at one of ours, under a controller of either kind: Apache Kafka's tools list them and move replicas
between them, and a folder that cannot be used costs only the replicas in it. Then kraft.version goes from 0 to 1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache
from tests.differential.mixed_cluster import OURS, THEIRS, Mixed, wait_until

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]


class TwoFoldersEach(Mixed):
    """Both brokers have a second folder beside their first."""

    def __init__(self, folder: Path, *, our_controller: bool) -> None:
        super().__init__(folder, our_controller=our_controller)
        self.folders = {
            node: (first, first.with_name(f"{first.name}-more"))
            for node, first in ((THEIRS, self.theirs.folder), (OURS, self.ours.folder))
        }
        self.theirs._properties["log.dirs"] = self.named(THEIRS)
        self.ours._settings["log.dirs"] = self.named(OURS)

    def named(self, node: int) -> str:
        return ",".join(map(str, self.folders[node]))

    def tool(self, name: str, *arguments: str, may_fail: bool = False) -> str:
        bootstrap = ("--bootstrap-server", self.ours.address)
        return apache.tool(f"org.apache.kafka.tools.{name}", *bootstrap, *arguments, may_fail=may_fail)

    def described(self) -> dict[int, dict[str, Any]]:
        """What kafka-log-dirs.sh says of each folder of each broker."""
        lines = self.tool("LogDirsCommand", "--describe").splitlines()
        (found,) = [json.loads(line) for line in lines if line.startswith("{")]
        return {each["broker"]: {folder["logDir"]: folder for folder in each["logDirs"]} for each in found["brokers"]}

    def folder_of(self, topic: str, node: int) -> Path | None:
        """The folder in which a broker has a topic's partition, as the disk says."""
        return next((each for each in self.folders[node] if (each / f"{topic}-0").is_dir()), None)


@pytest.fixture(scope="module", params=[False, True], ids=["they_control", "we_control"])
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoFoldersEach]:
    with TwoFoldersEach(tmp_path_factory.mktemp("folders"), our_controller=request.param) as cluster:
        yield cluster


def test_the_tool_lists_both_folders_of_both_brokers(mixed: TwoFoldersEach) -> None:
    for name in ("listed-a", "listed-b"):
        mixed.create(name, [THEIRS, OURS])
        assert mixed.write(name, range(50)) == list(range(50))
        mixed.await_partition(name, THEIRS, {THEIRS, OURS})
    found = mixed.described()
    for node in (THEIRS, OURS):
        assert set(found[node]) == {str(each) for each in mixed.folders[node]}
        assert all(each["error"] is None for each in found[node].values())
        listed = sorted(
            each["partition"]
            for folder in found[node].values()
            for each in folder["partitions"]
            if "listed" in each["partition"]
        )
        assert listed == ["listed-a-0", "listed-b-0"]


@pytest.mark.parametrize("leader", [THEIRS, OURS])
def test_replicas_of_both_brokers_move_between_their_folders(
    mixed: TwoFoldersEach, leader: int, tmp_path: Path
) -> None:
    name = f"moved-{leader}"
    replicas = [leader, THEIRS + OURS - leader]
    mixed.create(name, replicas)
    mixed.write(name, range(300))
    mixed.await_partition(name, leader, {THEIRS, OURS})
    targets = {}
    for node in (THEIRS, OURS):
        first, second = mixed.folders[node]
        targets[node] = second if mixed.folder_of(name, node) == first else first
    plan = tmp_path / "plan.json"
    move = {"topic": name, "partition": 0, "replicas": replicas, "log_dirs": [str(targets[each]) for each in replicas]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    arguments = ("--reassignment-json-file", str(plan))
    mixed.tool("reassign.ReassignPartitionsCommand", *arguments, "--execute")
    told = ""

    def done() -> bool:
        nonlocal told
        told = mixed.tool("reassign.ReassignPartitionsCommand", *arguments, "--verify", may_fail=True)
        return told.count("Reassignment of replica") == 2 and told.count("completed successfully") == 2

    wait_until(done, lambda: told)
    assert {node: mixed.folder_of(name, node) for node in targets} == targets
    assert mixed.write(name, range(300, 400)) == list(range(300, 400))
    assert mixed.read(name) == list(range(400))
    mixed.await_partition(name, leader, {THEIRS, OURS})


@pytest.mark.expects_log("the broker starts without the partitions in it")
@pytest.mark.parametrize("node", [OURS, THEIRS])
def test_a_folder_that_cannot_be_used_costs_only_its_replicas(mixed: TwoFoldersEach, node: int) -> None:
    other = THEIRS + OURS - node
    broker: Any = mixed.ours if node == OURS else mixed.theirs
    by_folder: dict[Path | None, str] = {}
    for number in range(10):  # two topics, of which each folder has one
        name = f"lost-{node}-{number}"
        mixed.create(name, [node, other])
        mixed.write(name, range(20))
        mixed.await_partition(name, node, {THEIRS, OURS})
        by_folder.setdefault(mixed.folder_of(name, node), name)
        if len(by_folder) == 2:
            break
    first, second = mixed.folders[node]
    kept, lost = by_folder[first], by_folder[second]
    broker.stop()
    away = second.with_name("away")
    second.rename(away)
    second.write_text("not a folder")
    broker.start()
    if node == THEIRS:
        mixed.theirs.await_broker()
    mixed.await_partition(kept, other, {THEIRS, OURS})
    mixed.await_partition(lost, other, {other})
    assert mixed.write(lost, range(20, 30)) == list(range(20, 30))
    broker.stop()
    second.unlink()
    away.rename(second)
    broker.start()
    if node == THEIRS:
        mixed.theirs.await_broker()
    for name, count in ((kept, 20), (lost, 30)):
        mixed.await_partition(name, other, {THEIRS, OURS})
        assert mixed.read(name) == list(range(count))


def test_the_tool_raises_kraft_version(mixed: TwoFoldersEach) -> None:
    told = ""

    def done() -> bool:
        nonlocal told
        told = mixed.tool("FeatureCommand", "upgrade", "--feature", "kraft.version=1", may_fail=True)
        return "was upgraded to 1" in told

    wait_until(done, lambda: told)
    assert "CurrentVoters" in mixed.tool("MetadataQuorumCommand", "describe", "--status")
    mixed.create("after", [OURS, THEIRS])
    assert mixed.write("after", range(10)) == list(range(10))
    mixed.await_partition("after", OURS, {THEIRS, OURS})
    levels: dict[str, int] = {}

    def named() -> bool:
        levels.update((each, _level(each, "kraft.version")) for each in (mixed.theirs.address, mixed.ours.address))
        return set(levels.values()) == {1}

    wait_until(named, lambda: f"kraft.version as the brokers name it: {levels}")


def _level(address: str, feature: str) -> int:
    """Return the level of a feature in ApiVersions of a broker, 0 if it names none."""
    host, _, port = address.rpartition(":")
    with WireClient(host, int(port)) as client:
        body = {"client_software_name": "test", "client_software_version": "1"}
        found = {each.name: each.max_version_level for each in client.call(18, 4, body).finalized_features}
    return found.get(feature, 0)
