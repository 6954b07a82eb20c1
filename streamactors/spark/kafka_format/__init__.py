"""The format `streamactors-kafka`: topics as plain Spark tables and streams, for jobs without a graph, and without a jar.

Spark calls the classes in `entry.py`, which travel to its processes by value. `options.py` says what the options mean, `reading.py` reads,
`writing.py` writes, and `columns.py` turns records into rows and back."""
