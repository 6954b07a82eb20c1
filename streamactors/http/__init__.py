"""The HTTP server of a process: of its live page, and of its metrics and probes.

`server.py` listens on a thread of its own and hands each connection to `connections.py`, which reads requests and writes responses (`messages.py`).
What is answered is a `Handler` of the caller: `dashboard/server/routes.py` and `broker/http/endpoint.py`."""
