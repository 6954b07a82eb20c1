"""Both brokers run with Apache Kafka's settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors.broker.cluster import profile


@pytest.fixture(autouse=True, scope="package")
def _intervals_of_apache_kafka() -> Iterator[None]:
    """Answers and configurations name the intervals of groups, which a `Cluster` makes short for tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile, "KINDS", ())
        yield
