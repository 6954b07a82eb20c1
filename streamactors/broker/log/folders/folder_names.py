"""The names of the folders of logs: TOPIC-N, and TOPIC-N.HEX with -delete or -future at the end, as in Apache Kafka. Pure.

Owner: LogManager."""

from __future__ import annotations

import re
import uuid
from typing import Final

DELETE_SUFFIX: Final = "-delete"
MAX_NAME: Final = 255
_FUTURE: Final = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}-future")


def deleted_name(topic: str, partition: int) -> str:
    """Return a new name for the folder of a log that is deleted."""
    return _capped(topic, f"-{partition}.{uuid.uuid4().hex}{DELETE_SUFFIX}")


def _capped(topic: str, ending: str) -> str:
    return topic[: MAX_NAME - len(ending)] + ending


def parse_folder(name: str) -> tuple[str, int] | None:
    """Return (topic, partition) of a folder name, None if it is not the name of a partition's folder."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return topic, int(number)


def future_name(topic: str, partition: int) -> str:
    """Return a new name for the folder of a future log."""
    return _capped(topic, f"-{partition}.{uuid.uuid4().hex}-future")


def parse_future(name: str) -> tuple[str, int] | None:
    """Return the topic and partition of a future log's folder, None for other names."""
    found = _FUTURE.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))
