"""How a broker is started: in the caller's process (`embedded.py`), in a child process (`child_process.py`), or as a separate process
(`standalone.py`).

`startup.py` makes the configuration and the data folder from options and a server.properties file; `storage_format.py` formats a folder."""
