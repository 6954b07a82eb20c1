"""The demo with processes that are killed: the demo itself, and a worker of a Spark cluster."""
