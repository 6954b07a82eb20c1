"""The version of Fetch between brokers, by the metadata version of the cluster, as Apache Kafka's MetadataVersion has it."""

from __future__ import annotations

import pytest

from streamactors.broker.replication.follower_request import fetch_version


@pytest.mark.parametrize(
    ("metadata_version", "version"),
    [(1, 13), (8, 13), (9, 14), (10, 15), (18, 15), (19, 16), (20, 16), (21, 17), (26, 17), (27, 18), (99, 18)],
)
def test_a_metadata_version_has_its_version_of_fetch(metadata_version: int, version: int) -> None:
    assert fetch_version(metadata_version) == version
