"""SharedSourceSettings: how `Consumer.shared_source` reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamactors.errors import BuildError
from streamactors.kafka.property_rules import Properties
from streamactors.kafka.settings import ClientSettings
from streamactors.stages.checks import at_least


@dataclass(frozen=True)
class SharedSourceSettings(ClientSettings):
    """How a source reads topics as a queue, as a member of a share group. `properties` are librdkafka's; those of TLS and the login count."""

    group_id: str = field(kw_only=False, default="")
    """The share group."""

    max_in_flight: int = field(default=1_000, kw_only=True)
    """The most records that are locked for this source: those that are being worked on, and those whose acknowledgement is on its way."""

    max_bytes: int = field(default=4 << 20, kw_only=True)
    """The most bytes of one answer of a broker. A larger batch comes alone."""

    delivery_limit: int | None = field(default=None, kw_only=True)
    """A record that was delivered this often and is still not done is rejected: no member gets it again. None: the broker's own limit, which is 5
    unless group.share.delivery.count.limit says otherwise."""

    auto_offset_reset: str | None = field(default=None, kw_only=True)
    """Where a group that has read nothing yet begins: earliest or latest. The source sets it as the group's share.auto.offset.reset when it starts,
    which needs AlterConfigs on the group. None: as the group has it, by default latest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        who = "SharedSourceSettings"
        if not isinstance(self.group_id, str) or not self.group_id.strip():
            raise BuildError(f"{who} needs the id of a share group, got {self.group_id!r}; give group_id='…'")
        if self.auto_offset_reset not in (None, "earliest", "latest"):
            raise BuildError(
                f"{who}: auto_offset_reset must be earliest, latest or None, got {self.auto_offset_reset!r}"
            )
        at_least(who, "max_in_flight", self.max_in_flight, 1)
        at_least(who, "max_bytes", self.max_bytes, 1)
        if self.delivery_limit is not None:
            at_least(who, "delivery_limit", self.delivery_limit, 1)

    def client_properties(self) -> Properties:
        """Return the bootstrap servers, and the properties of TLS and of the login."""
        return self.address()
