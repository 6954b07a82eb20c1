"""partition.metadata: the topic id of a folder. It tells a topic from a later one of the same name.

Owner: PartitionLog writes it when it is created. Two lines: "version: 0", "topic_id: <22 characters, base64url>".
Source: KIP-516.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Final

FILE_NAME: Final = "partition.metadata"


def encode_uuid(value: uuid.UUID) -> str:
    """Return the id as Kafka writes it: base64url without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    """Read an id as Kafka writes it. Raises ValueError."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(f"not an id: {text!r} ({error})") from None
    if len(raw) != 16:
        raise ValueError(f"not an id: {text!r} has {len(raw)} bytes, it needs 16")
    return uuid.UUID(bytes=raw)


def encode_metadata(topic_id: uuid.UUID) -> bytes:
    """The file's content."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}\n".encode()


def decode_metadata(data: bytes) -> uuid.UUID | None:
    """Return the topic id; None if the content is incomplete, for example after a crash during the write."""
    fields = dict(line.split(": ", 1) for line in data.decode("utf-8", "replace").splitlines() if ": " in line)
    try:
        return decode_uuid(fields["topic_id"]) if fields.get("version") == "0" else None
    except (KeyError, ValueError):
        return None
