"""Identity, addresses and folders of this broker.

Owner: the server. Names and defaults: Apache Kafka's broker configs for KRaft. The quorum settings accept
only a single node that is its own controller.
"""

from __future__ import annotations

from streamactors.broker.config.checks import at_least, each_of, one_of
from streamactors.broker.config.declare import boolean, integer, long, optional_text, short, text, words
from streamactors.broker.config.setting import Settings


class NodeSettings(Settings):
    """Identity, listeners, folders and topic creation."""

    __slots__ = ()

    advertised_listeners = optional_text(
        "Addresses advertised to clients, as NAME://host:port by comma; unset: the addresses of `listeners`. "
        "Needed when clients reach the broker by another name: containers, WSL, port forwarding."
    )
    auto_create_topics_enable = boolean(
        True, "Create a topic when a producer or consumer asks for one that does not exist."
    )
    broker_id = integer(-1, "Old name of node.id; -1 means unset.", at_least(-1))
    broker_rack = optional_text("Rack (availability zone) of this broker, sent to clients.")
    controller_listener_names = optional_text(
        "Names of the listeners for controllers; nodes connect to the first. Beyond loopback such a listener is opened only if it authenticates its "
        "clients: by SASL, or by SSL with ssl.client.auth=required."
    )
    controller_quorum_bootstrap_servers = words(
        (),
        "With process.roles=broker: controllers of the cluster to join, as host:port. Otherwise at most one, this node.",
    )
    controller_quorum_voters = words(
        (),
        "With process.roles=broker: the voters of the cluster to join, as id@host:port. Otherwise at most one, this node.",
    )
    cordoned_log_dirs = words(
        (),
        "Data folders of this broker that get no new replica, or * for all of them (KIP-1066). Each is one of log.dirs. Needs metadata.version 30.",
        dynamic=True,
    )
    default_replication_factor = integer(1, "Replicas of a topic that is created without saying how many.")
    delete_topic_enable = boolean(True, "Allow topics to be deleted.")
    inter_broker_listener_name = optional_text(
        "Name of the listener through which brokers connect to each other. If it is not set, the name is that of security.inter.broker.protocol."
    )
    listener_security_protocol_map = text(
        "PLAINTEXT:PLAINTEXT",
        "Security protocol of each listener name, as NAME:PROTOCOL by comma: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. "
        "A listener of such a name needs no entry.",
    )
    listeners = text(
        "PLAINTEXT://localhost:9092",
        "Addresses to listen on, as NAME://host:port by comma. `localhost` means 127.0.0.1 and ::1, an empty host or "
        "0.0.0.0 every interface, port 0 a free one. Apache Kafka's default listens on every interface.",
    )
    log_dir = optional_text("Data folder, when log.dirs is not set.")
    log_dir_failure_timeout_ms = long(
        30_000,
        "A broker that cannot tell the controller within this time, in ms, that one of its data folders has failed, ends.",
        at_least(1),
    )
    log_dirs = optional_text(
        "Data folders, by comma. A new partition goes to the one with the fewest. Unset: log.dir, and without that a temporary folder."
    )
    max_request_partition_size_limit = integer(
        2000, "Most partitions that one DescribeTopicPartitions answer holds.", at_least(1)
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        20_971_520,
        "Write a snapshot of the metadata when its log has grown by this much, and drop the log before it.",
        at_least(1),
    )
    metadata_max_idle_interval_ms = integer(
        500,
        "How often the active controller of several nodes writes a no-op record to a metadata log that is idle; 0 for never. "
        "A single node writes none, because no other node reads its log.",
        at_least(0),
    )
    metadata_log_dir = optional_text(
        "Folder with the metadata log: one of log.dirs, or a folder without partitions. Unset: the first of log.dirs."
    )
    node_id = integer(1, "Id of this node in the cluster. Apache Kafka has no default.", at_least(0))
    num_partitions = integer(1, "Partitions of a topic that is created without saying how many.", at_least(1))
    offsets_topic_num_partitions = integer(50, "Partitions of __consumer_offsets.", at_least(1))
    offsets_topic_replication_factor = short(
        3, "Replicas of __consumer_offsets; fewer while fewer brokers are alive.", at_least(1)
    )
    offsets_topic_segment_bytes = integer(104_857_600, "Segment size of __consumer_offsets.", at_least(1))
    process_roles = words(
        ("broker", "controller"), "Roles of this node. Apache Kafka has no default.", each_of("broker", "controller")
    )
    security_inter_broker_protocol = text(
        "PLAINTEXT",
        "Protocol between brokers, and the name of their listener. Set this or inter.broker.listener.name, not both.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    transaction_state_log_min_isr = integer(
        2, "min.insync.replicas of __transaction_state; never more than its replicas.", at_least(1)
    )
    transaction_state_log_num_partitions = integer(50, "Partitions of __transaction_state.", at_least(1))
    transaction_state_log_replication_factor = short(
        3, "Replicas of __transaction_state; fewer while fewer brokers are alive.", at_least(1)
    )
    transaction_state_log_segment_bytes = integer(104_857_600, "Segment size of __transaction_state.", at_least(1))
