"""Partitions that a consumer gets and loses: assignment, revocation, first positions, resets, and the user's handler."""
