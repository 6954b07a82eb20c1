"""The live page and `streamactors top`: what flows, who holds whom back, and how late it is.

`serving.py` starts a `Dashboard` for a system: `sampling.py` looks at the runs on a thread of its own and makes a State of `model.py` each
second from the readers in `reading/`; `culprit.py` says which stage holds others back; `history.py` keeps the last ten minutes; `server/` gives
page and JSON to browsers with the token. `terminal.py` shows the same State in a terminal, `combining.py` the States of several processes."""
