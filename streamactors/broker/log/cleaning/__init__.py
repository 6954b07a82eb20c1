"""Compaction: the `Cleaner` keeps the latest record of each key (`compaction.py`), without moving an offset."""
