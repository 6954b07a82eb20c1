"""What the share groups of a coordinator need of their broker, taken from its parts.

Owner: `Groups`, when it makes a shard."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.broker.group.metadata_hash import metadata_hash
from streamactors.broker.group.share.share_kind import ShareGroupRules, ShareNeeds
from streamactors.broker.group.share.share_rules import Facts
from streamactors.broker.runtime import Runtime
from streamactors.broker.share.group_config import share_group_config
from streamactors.broker.share.state.share_asks import Ask, Reply
from streamactors.broker.share.state.share_state import ShareKey


def share_needs(runtime: Runtime, ask: Callable[[ShareKey, Ask, Reply], object]) -> ShareNeeds:
    """Return what the share groups of a shard need. `ask` is the way to the share coordinator."""

    def facts(group_id: str) -> Facts:
        config, image = runtime.config, runtime.metadata.image
        of_group = share_group_config(config, image, group_id)
        return Facts(
            runtime.clock.wall_ms(),
            image,
            metadata_hash,
            config.group_share_max_size,
            of_group.assignment_interval_ms,
            config.group_share_initialize_retry_interval_ms,
        )

    def rules(group_id: str) -> ShareGroupRules:
        of_group = share_group_config(runtime.config, runtime.metadata.image, group_id)
        return ShareGroupRules(of_group.session_ms, of_group.heartbeat_ms)

    return ShareNeeds(facts, rules, ask)
