"""The names of the folders of logs: TOPIC-N, and TOPIC-N.HEX with -delete, -future or -stray at the end, as in Apache Kafka. Pure.

Owner: LogManager."""

from __future__ import annotations

import re
import uuid
from typing import Final

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
MAX_NAME: Final = 255
_FUTURE: Final = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-future")


def deleted_name(topic: str, partition: int) -> str:
    """Return a new name for the folder of a log that is deleted."""
    return _marked(topic, partition, DELETE_SUFFIX)


def stray_name(topic: str, partition: int) -> str:
    """Return a new name for the folder of a log that the metadata does not know."""
    return _marked(topic, partition, STRAY_SUFFIX)


def _marked(topic: str, partition: int, suffix: str) -> str:
    ending = f"-{partition}.{uuid.uuid4().hex}{suffix}"
    return topic[: MAX_NAME - len(ending)] + ending


def parse_folder(name: str) -> tuple[str, int] | None:
    """Return (topic, partition) of a folder name, None if it is not the name of a partition's folder."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return topic, int(number)


def future_name(topic: str, partition: int) -> str:
    """Return a new name for the folder of a future log. It is not cut, because it says what the log is a copy of."""
    return f"{topic}-{partition}.{uuid.uuid4().hex}-future"


def can_have_future(topic: str, partition: int) -> bool:
    """Whether the folder of a future log can have a name."""
    return len(future_name(topic, partition)) <= MAX_NAME


def parse_future(name: str) -> tuple[str, int] | None:
    """Return the topic and partition of a future log's folder, None for other names."""
    found = _FUTURE.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))
