"""The sets of voters that a log names, each with the offset of its record, as the replica of one node sees them. Pure.

Owner: the metadata log, which tells what it appends, truncates and installs. The newest set counts as soon as it is in the log; the sets
before it count again when the log is truncated. Source: KIP-853."""

from __future__ import annotations

import uuid
from collections.abc import Set
from typing import Final

from streamactors.broker.quorum.voter_set import VoterSet

BEFORE_THE_LOG: Final = -1
"""The offset of a set that only a snapshot names."""
_OTHER_FOLDER: Final = -(1 << 31)


def other_folder(node_id: int) -> int:
    """Return the id under which a node counts whose folder is not that of the voter with its id: it is not a voter."""
    return _OTHER_FOLDER + node_id


class VotersHistory:
    """The sets of voters that the log has named, by the offset of their record. `node_id` and `directory_id` are those of the node itself."""

    def __init__(self, node_id: int = -1, directory_id: uuid.UUID | None = None) -> None:
        self._node_id = node_id
        self._directory_id = directory_id
        self._named: list[tuple[int, VoterSet]] = []

    def restart(self, voters: VoterSet | None) -> None:
        """The log begins with a snapshot that names these voters."""
        self._named = [] if voters is None else [(BEFORE_THE_LOG, voters)]

    def name(self, offset: int, voters: VoterSet) -> None:
        """The log has a record of these voters."""
        self._named.append((offset, voters))

    def truncate(self, offset: int) -> bool:
        """The records from this offset on are gone. Return whether other voters count now."""
        kept = [each for each in self._named if each[0] < offset]
        changed, self._named = len(kept) != len(self._named), kept
        return changed

    def at(self, end_offset: int) -> VoterSet | None:
        """Return the voters that the records below this offset name last."""
        return next((voters for offset, voters in reversed(self._named) if offset < end_offset), None)

    @property
    def newest(self) -> VoterSet | None:
        """The voters that count, None if the log names none."""
        return self._named[-1][1] if self._named else None

    @property
    def offset(self) -> int:
        """The offset of the record that names them, -1 if no record of the log does."""
        return self._named[-1][0] if self._named else BEFORE_THE_LOG

    @property
    def ids(self) -> Set[int] | None:
        return self._ids(self.newest)

    @property
    def ids_before(self) -> Set[int] | None:
        """The ids of the voters that counted before the newest."""
        return self._ids(self._named[-2][1]) if len(self._named) > 1 else None

    def _ids(self, voters: VoterSet | None) -> Set[int] | None:
        """Return the ids. A voter with the id of this node and another folder is another node."""
        if voters is None:
            return None
        own = voters.directory_of(self._node_id)
        if own is None or self._directory_id is None or own == self._directory_id:
            return voters.ids
        return (voters.ids - {self._node_id}) | {other_folder(self._node_id)}
