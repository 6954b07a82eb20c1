"""Partitions that come to a consumer and leave it: assignment, revocation, first positions, resets, and the user's handler."""
