"""The log of one partition: `PartitionLog` and its parts, which share one `LogCore`.

One file per kind of work: append as leader, follow a leader, read, truncate the end, trim the start, flush. `log_loader.py` opens a folder
and calls `recovery.py` for segments that a crash damaged."""
