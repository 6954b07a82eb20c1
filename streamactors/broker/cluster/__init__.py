"""`Cluster`: one or several brokers for the length of a `with` block, for tests and demos.

`cluster.py` is the class; `arguments.py` and `cluster_credentials.py` check and prepare what it takes, users and TLS among them. `several.py` starts and
stops one process for each broker (`node_process.py`) on the ports that it reserves (`reserved_ports.py`), and disturbs them. `view.py` asks
a live broker what the cluster looks like; `acked.py` compares topics with what was acknowledged. Partitions and delays work on the sending
side of each process, `network/outgoing/links.py`."""
