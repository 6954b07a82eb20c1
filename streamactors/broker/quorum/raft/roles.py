"""What a replica of the metadata log can be in its epoch, and the two timeouts by which this changes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

RETRY_MS: Final = 20.0


class Role(enum.Enum):
    """What a replica does in its epoch."""

    UNATTACHED = "it knows no leader, or waits for one"
    PROSPECTIVE = "it asks the voters whether they would vote for it"
    CANDIDATE = "it has begun an epoch, voted for itself, and asks for votes"
    FOLLOWER = "it copies the leader's log; a node that is not a voter is an observer"
    LEADER = "it writes the log"
    RESIGNED = "it has led this epoch and must not lead it again"


@dataclass(frozen=True, slots=True)
class Timing:
    """The two timeouts of Kafka's controller.quorum.* settings."""

    election_ms: float = 1_000.0
    fetch_ms: float = 2_000.0
