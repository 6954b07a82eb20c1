"""Byte streams between the process and others: TCP and TLS connections, servers, child processes, standard input.

`duplex.py` moves bytes between a stage and a pair of asyncio streams; `tcp.py`, `server.py` and `process.py` say where the pair comes from.
The asyncio loop of the actor system does the reading and writing; the stages stay on their islands."""
