"""The legal names of topics. Rules and wording: Apache Kafka's Topic.validate."""

from __future__ import annotations

import re
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal

MAX_LENGTH: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_STATE_TOPIC})
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise Refusal unless the name is legal."""
    complaint = topic_name_complaint(name)
    if complaint is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {complaint}")


def topic_name_complaint(name: str) -> str | None:
    """Return why a name is illegal, None if it is legal."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def metric_name(name: str) -> str:
    """Return the topic's name in metrics. Topics whose names differ only in `.` and `_` collide."""
    return name.replace(".", "_")
