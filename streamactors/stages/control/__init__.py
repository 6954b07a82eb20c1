"""Stages that end, repeat or restart a running part.

`kill_switch.py` ends it; `retry.py` and `retrying_flow.py` give an element to a flow again; `restart.py` starts sources, flows and sinks again after a
back-off, with `redelivery.py` for what was not acknowledged."""
