"""A request of a client, from its frame to its answer.

`Dispatch` reads the header, finds the handler in the table of `api.py`, checks the rights, and calls it. `Request` answers, now or later.
`forwarding.py` sends what only the controller may decide to the controller (KIP-590). `logins.py` serves the tokens of old logins, which
come without a header. The handlers are in `apis/` and `controller_apis/`."""
