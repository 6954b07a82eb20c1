"""Offsets that are asked of brokers, without a consumer: committed ones, those of a time, and the ends of partitions.

`group_offsets.py` reads and commits for a group, `listed_offsets.py` asks leaders, `newest_ends.py` compares the answers of several brokers
(`end_views.py`). `newest_keys.py` and `unread.py` look at the records between offsets."""
