"""Sinks that write batches: the contract (`batches`), and ready ones for SQL databases and object files.

`batches.py` gathers, retries and reports marks; `sql.py` and `objects.py` only say how a batch is written."""
