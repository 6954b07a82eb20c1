"""Settings of Apache Kafka that this broker knows by name but does not support.

Settings of missing threads, pools and features are accepted with a warning, so that an existing server.properties works.
Settings of security that this broker does not have are refused, because the broker must not seem protected when it is not.
"""

from __future__ import annotations

from typing import Final

from streamactors.broker.config.security_settings import SecuritySettings

WITHOUT_EFFECT: Final[dict[str, str]] = {
    name: because
    for because, names in {
        "this broker has no such threads or queues": """
            background.threads controller.socket.timeout.ms delete.records.purgatory.purge.interval.requests
            group.coordinator.append.linger.ms group.coordinator.background.threads
            group.coordinator.cached.buffer.max.bytes group.coordinator.threads log.cleaner.io.buffer.size
            log.cleaner.io.max.bytes.per.second log.cleaner.threads
            log.initial.task.delay.ms num.io.threads num.network.threads
            num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
            offsets.load.buffer.size offsets.topic.compression.codec queued.max.requests request.timeout.ms
            server.max.startup.time.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
            transaction.state.log.load.buffer.size unstable.api.versions.enable unstable.feature.versions.enable""",
        "the defaults of Apache Kafka are built in": """
            alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
            controller.performance.always.log.threshold.ms
            controller.performance.sample.period.ms controller.quorum.append.linger.ms
            controller.quorum.election.backoff.max.ms
            controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
            controller.quorum.retry.backoff.ms internal.metadata.delete.delay.millis
            internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
            metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms
            metadata.max.retention.bytes metadata.max.retention.ms
            replica.socket.receive.buffer.bytes replica.socket.timeout.ms
            replication.quota.window.num replication.quota.window.size.seconds unclean.leader.election.interval.ms""",
        "expired delegation tokens count for nothing, and go when the next one is made": """
            delegation.token.expiry.check.interval.ms""",
        "this broker does not use them": """
            group.coordinator.rebalance.protocols group.share.assignors group.streams.assignors
            group.streams.rack.aware.assignment.tags share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
            share.coordinator.load.buffer.size share.coordinator.state.topic.compression.codec
            share.coordinator.threads share.fetch.purgatory.purge.interval.requests
            transaction.two.phase.commit.enable""",
        "there is no tiered storage": """
            follower.fetch.last.tiered.offset.enable""",
        "OpenSSL chooses ciphers and providers": """
            ssl.cipher.suites ssl.keymanager.algorithm ssl.protocol ssl.provider
            ssl.secure.random.implementation ssl.trustmanager.algorithm sasl.server.max.receive.size""",
        "there is no Kerberos, so no ticket is renewed": """
            sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
            sasl.kerberos.ticket.renew.window.factor""",
        "metrics are served by --metrics-port": """
            kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters metrics.num.samples
            metrics.recording.level metrics.sample.window.ms""",
    }.items()
    for name in names.split()
}

_SECURITY: Final = "this broker does not have it, and must not look protected by it; remove it"
_TIERED: Final = "there is no tiered storage; remove it"
_PLUGINS: Final = "this broker loads no Java classes; remove it"
_ZOOKEEPER: Final = "this broker keeps its metadata itself, as Kafka without ZooKeeper does; remove it"

_REFUSED_NAMES: Final = {
    "alter.config.policy.class.name": _PLUGINS,
    "client.quota.callback.class": _PLUGINS,
    "config.providers": _PLUGINS,
    "create.topic.policy.class.name": _PLUGINS,
    "early.start.listeners": _SECURITY,
    "group.share.persister.class.name": _PLUGINS,
    "group.streams.topology.description.plugin.class": _PLUGINS,
    "principal.builder.class": _SECURITY,
    "security.providers": _SECURITY,
}
_REFUSED_PREFIXES: Final = (
    ("listener.name.", _SECURITY),
    ("password.encoder.", _SECURITY),
    ("remote.fetch.", _TIERED),
    ("remote.list.", _TIERED),
    ("remote.log.", _TIERED),
    ("sasl.", _SECURITY),
    ("ssl.", _SECURITY),
    ("zookeeper.", _ZOOKEEPER),
)


def why_refused(name: str) -> str | None:
    """Return the reason why a setting of Apache Kafka is refused, None if it is not."""
    if name in SecuritySettings.declared() or (name in WITHOUT_EFFECT and name.startswith("sasl.kerberos.")):
        return None
    reason = _REFUSED_NAMES.get(name)
    if reason is not None:
        return reason
    return next((reason for prefix, reason in _REFUSED_PREFIXES if name.startswith(prefix)), None)
