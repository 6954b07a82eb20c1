"""The levels of the features by release, as Apache Kafka's storage tool names them; and folders of an older release that its tool raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.controller.rules.feature_rules import SUPPORTED
from streamactors.broker.controller.rules.release_levels import LEVELS, default_levels, level_of_release, levels_of
from streamactors.broker.launch.storage_format import format_folder
from streamactors.broker.wire_request import create_topic
from streamactors.cli.main import run
from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import CLUSTER_ID, ApacheKafka, _free_ports
from tests.differential.java_programs.jvm import Jvm
from tests.differential.our_node import OurController

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]
OLD = 19
SHARED = "4.4" if default_levels() == levels_of(level_of_release("4.4")) else "4.3"
"""The newest release of which our nodes support every level."""


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    with Jvm() as started:
        yield started


def test_every_release_begins_with_the_levels_of_apache_kafka(jvm: Jvm) -> None:
    for release in (*LEVELS, "3.7", "4.0", "4.4", "4.3.0"):
        told = jvm.run("kafka.tools.StorageTool", "version-mapping", "--release-version", release)
        found = {name: int(level) for name, level in re.findall(r"^(\S+)=(\d+)", told, re.MULTILINE)}
        ours = levels_of(level_of_release(release))
        assert {name: level for name, level in found.items() if level} == ours, release
        assert found.keys() == {each.name for each in SUPPORTED}


def described(jvm: Jvm, address: str) -> dict[str, str]:
    """Return the finalized levels, as Apache Kafka's tool prints them: metadata.version by its name."""
    told = jvm.run("FeatureCommand", "--bootstrap-server", address, "describe")
    found = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", told))
    assert "metadata.version" in found, told
    return {name: level for name, level in found.items() if level != "0"}


def test_a_folder_of_an_older_release_is_raised_by_their_tool_and_by_ours_as_theirs_is(
    jvm: Jvm, tmp_path: Path
) -> None:
    theirs = ApacheKafka(tmp_path / "theirs", features={"metadata.version": OLD})
    theirs.start()
    ours = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        format_folder(folder, 1, CLUSTER_ID, {"metadata.version": OLD})
        ours.append(OurController(folder, 1, _free_ports(1)[0], {}))
        ours[-1].start()
        create_topic(ours[-1].address, "before", 1, {})
    try:
        for address in (theirs.address, ours[0].address):
            told = jvm.run("FeatureCommand", "--bootstrap-server", address, "upgrade", "--release-version", SHARED)
            assert "upgraded" in told, told
            assert "Could not" not in told
        assert run(["features", "upgrade", "-b", ours[1].address, "--release-version", SHARED]) == 0
        expected = described(jvm, theirs.address)
        for each in ours:
            assert described(jvm, each.address) == expected
            create_topic(each.address, "after", 1, {})
            each.kill()
            each.start()
            assert described(jvm, each.address) == expected
    finally:
        theirs.kill()
        for each in ours:
            each.stop()
