"""The errors with which a share source ends because the cluster refuses it: each names the thing and the way out."""

from __future__ import annotations

from collections.abc import Sequence

from streamactors.kafka.client.share.protocol import ErrorCode
from streamactors.kafka.client.share.share_requests import no_share_groups
from streamactors.kafka.errors import ConsumerFailed, KafkaError
from streamactors.kafka.sources.share_group.share_settings import SharedSourceSettings


def refusal(settings: SharedSourceSettings, topics: Sequence[str], code: int, message: str | None) -> KafkaError:
    """Return the error for a code with which a request of the group, or for its topics, was refused for good."""
    group, servers = settings.group_id, settings.bootstrap_servers
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return no_share_groups(servers)
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return ConsumerFailed(f"the user may not read with group {group} at {servers}; grant Read on the group")
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return ConsumerFailed(f"the user may not read {', '.join(topics)} at {servers}; grant Read on the topic")
    return ConsumerFailed(f"share group {group} at {servers}: {message or _name(code)}")


def reset_refused(settings: SharedSourceSettings, reset: str, code: int, message: str) -> KafkaError:
    """Return the error of a group whose setting must not be changed."""
    return ConsumerFailed(
        f"share.auto.offset.reset={reset} of group {settings.group_id} was refused: {message or _name(code)}; grant AlterConfigs "
        "on the group, or set it with kafka-configs.sh and leave auto_offset_reset out"
    )


def _name(code: int) -> str:
    return ErrorCode(code).name.replace("_", " ").lower()
