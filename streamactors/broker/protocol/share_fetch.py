"""The codec of answers of ShareFetch (key 78): parts, with records sent from file to socket.

Versions: 1-2, whose answers are the same. Source: Kafka's ShareFetchResponse.json."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from streamactors.broker.protocol.primitives import array_length, nullable_string, string, uvarint

_FRAME: Final = Struct(">ii")  # size, correlation id
_HEAD: Final = Struct(">Bih")  # no tagged fields in the header, throttle time, error
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_PARTITION: Final = Struct(">ih")  # index, error
_LEADER: Final = Struct(">iiB")  # id, epoch, no tagged fields
_ACQUIRED: Final = Struct(">qqhB")  # first offset, last offset, deliveries, no tagged fields
_NO_TAGS: Final = 0


def encode_share_fetch_response(answer: Mapping[str, Any], _version: int, correlation_id: int) -> list[Any]:
    """Return the whole response frame as parts: bytes, with the slices of logs in their places."""
    parts: list[Any] = []
    size = 0
    out = bytearray(_FRAME.size)
    out += _HEAD.pack(_NO_TAGS, answer.get("throttle_time_ms", 0), answer["error_code"])
    out += nullable_string(answer.get("error_message"), True)
    out += _INT32.pack(answer.get("acquisition_lock_timeout_ms", 0))
    first = out
    topics = answer.get("responses", ())
    out += array_length(len(topics), True)
    for topic in topics:
        out += topic["topic_id"].bytes
        out += array_length(len(topic["partitions"]), True)
        for partition in topic["partitions"]:
            _encode_errors(out, partition)
            records = partition["records"]
            if isinstance(records, bytes | bytearray):
                out += uvarint(len(records) + 1)
                out += records
            else:
                out += uvarint(records.length + 1)
                parts += (out, records)
                size += len(out) + records.length
                out = bytearray()
            acquired = partition["acquired_records"]
            out += array_length(len(acquired), True)
            for span in acquired:
                out += _ACQUIRED.pack(*span, _NO_TAGS)
            out.append(_NO_TAGS)
        out.append(_NO_TAGS)
    _encode_nodes(out, answer.get("node_endpoints", ()))
    out.append(_NO_TAGS)
    parts.append(out)
    _FRAME.pack_into(first, 0, size + len(out) - 4, correlation_id)
    return parts


def _encode_errors(out: bytearray, partition: Mapping[str, Any]) -> None:
    out += _PARTITION.pack(partition["partition_index"], partition["error_code"])
    out += nullable_string(partition["error_message"], True)
    out += _INT16.pack(partition["acknowledge_error_code"])
    out += nullable_string(partition["acknowledge_error_message"], True)
    leader = partition["current_leader"]
    out += _LEADER.pack(leader["leader_id"], leader["leader_epoch"], _NO_TAGS)


def _encode_nodes(out: bytearray, nodes: Any) -> None:
    out += array_length(len(nodes), True)
    for node in nodes:
        out += _INT32.pack(node["node_id"])
        out += string(node["host"], True)
        out += _INT32.pack(node["port"])
        out += nullable_string(node["rack"], True)
        out.append(_NO_TAGS)
