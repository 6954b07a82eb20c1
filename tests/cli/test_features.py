"""`streamactors features`: a folder of an older version is raised to the newest release, feature by feature, and what is said of mistakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors.broker import Cluster
from streamactors.broker.controller.rules.release_levels import default_levels
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from streamactors.broker.wire_request import create_topic
from tests.cli.ran import Run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker on a folder with the levels of 0.1.0."""
    folder = tmp_path_factory.mktemp("old")
    format_folder(folder, 1, new_cluster_id(), {"metadata.version": 19})
    with Cluster(data=folder) as running:
        yield running


def levels(streamactors: Run, at: tuple[str, str]) -> dict[str, int]:
    return {each["feature"]: each["level"] for each in streamactors("features", "list", "--json", *at).json}


def test_a_folder_of_an_older_version_serves_and_is_raised_to_a_release(streamactors: Run, broker: Cluster) -> None:
    at = ("-b", broker.bootstrap_servers)
    create_topic(broker.bootstrap_servers, "before", 1, {})
    old = levels(streamactors, at)
    assert {name for name, level in old.items() if level} == {"metadata.version"}
    assert old["metadata.version"] == 19
    ran = streamactors("features", "upgrade", "--release-version", "4.3", "--dry-run", *at)
    assert "metadata.version: can be changed from 19 to 30" in ran.out
    assert levels(streamactors, at) == old
    ran = streamactors("features", "upgrade", "--release-version", "4.4", *at)
    assert "metadata.version: changed from 19 to 33" in ran.out
    # This node has no listener for other controllers, so its log cannot name the voters: that is said, and the others are raised.
    assert (ran.code, "kraft.version" in ran.err) == (1, True)
    expected = {**default_levels(), "kraft.version": 0}
    assert levels(streamactors, at) == expected
    assert "metadata.version: 33 already" in streamactors("features", "upgrade", "--release-version", "4.4", *at).out
    create_topic(broker.bootstrap_servers, "after", 1, {})
    assert {"before", "after"} <= set(streamactors("topics", "list", *at).out.split())
    ran = streamactors("features", "downgrade", "--feature", "streams.version=0", *at)
    assert (ran.code, ran.out) == (0, "streams.version: changed from 1 to 0\n")
    streamactors("features", "upgrade", "--feature", "streams.version=1", *at)
    assert levels(streamactors, at) == expected
    ran = streamactors("features", "downgrade", "--release-version", "4.2", *at)
    assert (ran.code, "Unsupported metadata.version downgrade from 33 to 29" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("upgrade",), "give --release-version RELEASE, or --feature NAME=LEVEL"),
        (("upgrade", "--release-version", "4.9"), "release 4.9: choose one of 3.3"),
        (("downgrade", "--feature", "x"), "its form is NAME=LEVEL"),
        (("upgrade", "--release-version", "4.4", "--feature", "x=1"), "give --release-version RELEASE, or --feature"),
    ],
)
def test_a_wrong_command_line_is_refused(streamactors: Run, broker: Cluster, words: tuple[str, ...], told: str) -> None:
    ran = streamactors("features", *words, "-b", broker.bootstrap_servers)
    assert (ran.code, told in ran.err) == (2, True)
