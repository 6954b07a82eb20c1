"""Settings of a broker in a cluster of several nodes: its session with the controllers, and replication.

Owner: the server. Names and defaults: Apache Kafka's broker configs for KRaft. A broker that is its own controller has no use for them.
"""

from __future__ import annotations

from streamactors.broker.config.checks import at_least, one_of
from streamactors.broker.config.declare import boolean, integer, long, optional_text
from streamactors.broker.config.setting import LONG_MAX, Settings


class ClusterSettings(Settings):
    """Membership and replication."""

    __slots__ = ()

    auto_leader_rebalance_enable = boolean(
        True,
        "Have the controller give partitions back to their first replica from time to time, if it is in sync and another one leads.",
    )
    broker_heartbeat_interval_ms = integer(
        2_000, "Interval of the heartbeats to the active controller, in ms.", at_least(1)
    )
    broker_session_timeout_ms = integer(
        9_000, "Without heartbeats for this long, in ms, the controllers fence a broker.", at_least(1)
    )
    controller_fence_closed_connections = boolean(
        False,
        "Fence a broker at once when its heartbeat connection is closed and its listener refuses connections. Apache Kafka waits for the "
        "session timeout.",
    )
    controller_quorum_auto_join_enable = boolean(
        False,
        "A controller without a vote asks the leader for one again and again. The metadata log must name the voters (kraft.version 1).",
    )
    controller_quorum_election_timeout_ms = integer(
        1_000,
        "Without a leader for this long, in ms, and up to twice as long at random, a controller asks for votes.",
        at_least(1),
    )
    controller_quorum_fetch_timeout_ms = integer(
        2_000,
        "A controller that gets no answer from the leader of the quorum for this long, in ms, asks for votes. A leader that a majority "
        "does not ask for one and a half times as long gives up.",
        at_least(1),
    )
    controller_quorum_request_timeout_ms = integer(
        2_000,
        "A controller closes its connection to another one that does not answer for this long, in ms.",
        at_least(1),
    )
    controlled_shutdown_enable = boolean(
        True, "Move the leaderships to other brokers before this broker stops, if it is one of several."
    )
    initial_broker_registration_timeout_ms = integer(
        60_000, "Time for the registration at the start, in ms. Then the start fails.", at_least(1)
    )
    follower_replication_throttled_rate = long(
        LONG_MAX, "Bytes per second that this broker fetches for throttled replicas.", at_least(0), dynamic=True
    )
    leader_replication_throttled_rate = long(
        LONG_MAX, "Bytes per second that this broker sends to throttled replicas.", at_least(0), dynamic=True
    )
    leader_imbalance_check_interval_seconds = integer(
        300, "How often the controller looks for partitions that their first replica does not lead, in s.", at_least(1)
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        LONG_MAX,
        "Bytes per second that replicas which move to another data folder of this broker may copy in all.",
        at_least(0),
        dynamic=True,
    )
    replica_fetch_backoff_ms = integer(
        1_000, "Longest pause before a follower asks a leader again that did not answer, in ms.", at_least(0)
    )
    replica_fetch_max_bytes = integer(
        1_048_576, "Bytes of one partition in one answer to a follower. A larger batch is sent whole.", at_least(0)
    )
    replica_fetch_min_bytes = integer(1, "Bytes for which the leader waits before it answers a follower.", at_least(1))
    replica_fetch_response_max_bytes = integer(10_485_760, "Bytes of one answer to a follower.", at_least(0))
    replica_fetch_wait_max_ms = integer(
        500, "Longest time for which the leader waits for records before it answers a follower, in ms.", at_least(1)
    )
    replica_selector_class = optional_text(
        "Where consumers read: org.apache.kafka.common.replica.RackAwareReplicaSelector sends those with client.rack to a replica in sync whose "
        "broker.rack is the same. Unset: from the leader.",
        one_of(
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "org.apache.kafka.common.replica.LeaderSelector",
        ),
    )
    replica_lag_time_max_ms = long(
        30_000, "A follower that was not caught up for this long, in ms, leaves the ISR.", at_least(1)
    )
