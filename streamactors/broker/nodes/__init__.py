"""Several brokers, one process each, for tests and demos: `Cluster(brokers=3)`.

`several` starts and stops the processes (`node_process`) and disturbs them; `view` asks a live broker what the cluster looks like; `acked`
reads topics back and compares them with what was acknowledged. Partitions and delays work on the sending side of each process,
`network/links`."""
