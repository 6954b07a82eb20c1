"""TLS of clients' connections: the handshake, then input and output with the results and errors of a plain socket."""
