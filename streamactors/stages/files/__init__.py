"""Files as sources and sinks: blocks, lines, files that grow or rotate, and file-like objects in both directions.

`dsl/sources/files.py` and `dsl/sinks/files.py` are the only callers. Calls that may block run on the island's thread: the pool grows."""
