"""Zigzag variable-length integers, as records use them.

The walk over whole records (record_reader) has the one-byte case in line; what is here is the general case.
"""

from __future__ import annotations

from typing import Final

from streamactors.broker.errors import CorruptMessage

MAX_VARINT_BYTES: Final = 10


def write_varint(out: bytearray, value: int) -> None:
    """Append the zigzag varint of a signed 64-bit value."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def varint_size(value: int) -> int:
    """Return the bytes that `write_varint` takes for the value."""
    return max(1, (((value << 1) ^ (value >> 63)).bit_length() + 6) // 7)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return (value, position after it). Raises CorruptMessage beyond 64 bits, IndexError past the end."""
    zigzag = shift = 0
    start = position
    while True:
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> 64:
                break
            return (zigzag >> 1) ^ -(zigzag & 1), position
        shift += 7
        if shift >= 7 * MAX_VARINT_BYTES:
            break
    raise CorruptMessage(f"a variable-length integer of more than 64 bits at byte {start} of the records")
