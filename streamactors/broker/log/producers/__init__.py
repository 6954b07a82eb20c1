"""Idempotent producers of one partition: their state, its snapshots on disk, and its replay from the log."""
