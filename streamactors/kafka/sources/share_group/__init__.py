"""A share group as a queue (KIP-932): `Consumer.shared_source`.

`source_stage.py` is the source; it makes a `ShareMember` (`share_member.py`), whose threads ask the brokers through `kafka/client/share/`.
What they ask and what an answer means is decided by the pure machines: `queue_state.py` (demand, requests), with `leases_state.py` (the locked
records), `acks_state.py` (acknowledgements to send), `session_state.py` (one broker's session) and `group_state.py` (the membership)."""
