"""Hubs: streams that join and leave a running stream. A hub is materialized once; each part it hands out can be run any number of times.

merge_hub.py: many producers, one stream. broadcast_hub.py: one stream, many consumers, each gets all. partition_hub.py: one stream, many
consumers, each gets its share. The runs may be on different actor systems: they meet in an object with a lock, never in each other."""
