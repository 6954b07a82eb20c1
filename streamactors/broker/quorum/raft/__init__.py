"""Raft for the metadata log: who leads it, and what is committed in it.

`raft_state.py` is the state machine of one replica. It takes the messages of `raft_messages.py` and returns the effects of
`raft_effects.py`; `leader_progress.py` counts for a leader what the others have.
`raft_wire.py` and `raft_channels.py` carry the messages to the other voters. Everything but the channels is pure."""
