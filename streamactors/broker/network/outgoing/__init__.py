"""Connections to other nodes.

`ChannelMaker` makes one `Channel` to a node; `opening.py` connects it. `links.py` holds requests back, for tests."""
