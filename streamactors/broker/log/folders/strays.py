"""The folders of logs that the metadata does not know. The broker keeps them; only an administrator deletes them.

Owner: LogManager. The name is TOPIC-N.HEX-stray, as in Apache Kafka. A folder that is renamed back to TOPIC-N while the broker is stopped is the
log of its partition again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from streamactors.broker.log.disk import Disk
from streamactors.broker.log.segments.segment_files import LOG_SUFFIX


class Stray(NamedTuple):
    """A folder, with the bytes of its segments."""

    path: Path
    size_bytes: int


def stray_in(disk: Disk, path: Path) -> Stray:
    """Describe a folder. Raises OSError."""
    return Stray(path, sum(disk.size(path / name) for name in disk.names(path) if name.endswith(LOG_SUFFIX)))
