"""Settings of a member of a group, by the way in which the group divides its partitions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from streamactors.kafka import ConsumerSettings

CONSUMER = "consumer"
OVER_APACHE = os.environ.get("STREAMACTORS_TESTS_OVER") == "apache"
"""Whether the connector's tests run over Apache Kafka: STREAMACTORS_TESTS_OVER=apache pytest tests/kafka/test_….py"""
WAYS = ("range", "cooperative-sticky", CONSUMER)
"""Two assignors of classic groups, and the broker that divides (KIP-848)."""
QUICK_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
"""Settings of a broker whose consumer groups are as quick as the tests' classic ones."""
AT_BROKER = frozenset({"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"})


WITH_BOTH_PROTOCOLS = frozenset(
    [
        "test_consumer_source",
        "test_partitioned",
        "test_partitioned_restarts",
        "test_partitioned_offsets",
        "test_bounded_reads_in_groups",
        "test_assignment_handlers",
        "test_acceptance_commits",
        "test_committable",
        "test_committers_in_rebalances",
        "test_restarted_committers",
        "test_grown_topics",
        "test_new_partitions",
        "test_deleted_topics",
        "test_transactional",
        "test_fenced_runs",
        "test_standbys",
        "test_changelog_handover",
        "test_own_results_move",
        "test_control",
        "test_control_of_restarts",
        "test_delays",
        "test_ending",
        "test_group_end",
        "test_shared_consumer",
        "test_through_topic",
        "test_lag",
        "test_liveness",
        "test_substream_commits",
        "test_retry_topics",
        "test_repartition",
        "test_failed_sub_sources",
        "test_commit_order",
        "test_gathered_offsets",
        "test_keyed_sources",
        "test_changelog_order",
        "test_changelog_ends",
        "test_windows_behind_windows",
        "test_topology_end",
        "test_sub_topologies",
        "test_transaction_waits",
        "test_ordered_cuts",
        "test_marks_by_rule",
        "test_connector",
    ]
)
"""Modules whose tests depend on what a group does; they run with both protocols."""


def over_apache(tmp_path_factory: Any) -> Iterator[Any]:
    """Start Apache Kafka, and yield it with what the tests ask of a cluster."""
    from tests.differential.apache_kafka.as_cluster import as_a_cluster

    yield from as_a_cluster(tmp_path_factory.mktemp("apache") / "data", QUICK_GROUPS)


def of_protocol(settings: ConsumerSettings, protocol: str) -> ConsumerSettings:
    """Return settings for a group of this protocol; what a consumer group is told by its broker is left out."""
    if protocol != CONSUMER:
        return settings
    kept = {name: value for name, value in settings.properties.items() if name not in AT_BROKER}
    return replace(settings, properties=kept, group_protocol=CONSUMER)


def with_properties(settings: ConsumerSettings, properties: dict[str, Any]) -> ConsumerSettings:
    """Return settings with these properties; without those that the broker of a consumer group decides."""
    return of_protocol(replace(settings, group_protocol="classic").with_properties(properties), settings.group_protocol)


def with_assignor(settings: ConsumerSettings, assignor: str) -> ConsumerSettings:
    """Return settings with an assignor of classic groups; unchanged for a group whose broker divides."""
    return with_properties(settings, {"partition.assignment.strategy": assignor})


def member_settings(settings: ConsumerSettings, way: str, heartbeat_ms: int = 100) -> ConsumerSettings:
    """Return settings of a member that hears of changes quickly. `way`: one of WAYS."""
    if way == CONSUMER:
        return of_protocol(settings, CONSUMER)
    return replace(settings, group_protocol="classic").with_properties(
        {"heartbeat.interval.ms": heartbeat_ms, "partition.assignment.strategy": way}
    )
