"""One consumer for many sources, each of which reads partitions of its own."""
