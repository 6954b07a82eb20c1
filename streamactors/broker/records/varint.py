"""Zigzag variable-length integers, as records use them.

record_reader reads one-byte values inline, because most values have one byte. This module handles the general case.
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
