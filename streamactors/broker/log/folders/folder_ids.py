"""The reserved ids that do not name a data folder, as in Apache Kafka's DirectoryId (KIP-858)."""

from __future__ import annotations

import uuid
from typing import Final

UNKNOWN_FOLDER: Final = uuid.UUID(int=0)
"""The folder of a replica whose broker has not reported it yet."""
UNASSIGNED_FOLDER: Final = uuid.UUID(int=1)
"""The folder of a replica whose broker has not chosen one."""
LOST_FOLDER: Final = uuid.UUID(int=2)
"""No folder: the broker cannot serve the replica, and another one must lead."""
OPEN_FOLDERS: Final = frozenset({UNKNOWN_FOLDER, UNASSIGNED_FOLDER})
