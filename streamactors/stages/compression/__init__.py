"""Flows that compress and decompress a stream of bytes."""
