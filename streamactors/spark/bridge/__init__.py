"""The bridge between the streaming process and Spark's processes: a loopback server with a token, and the data source that asks it.

`bridge.py` runs in the streaming process. `reader.py` runs in Spark's processes and imports only the standard library and pyarrow."""
