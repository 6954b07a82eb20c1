"""The share coordinator (KIP-932): it stores the state of share partitions in the topic `__share_group_state`.

`ShareStates` is its entrance: it runs a `ShareStateShard` for each partition of the topic that this broker leads, and asks other brokers
for the rest. `share_state_rules` decides, `share_state_record` is the format of the log."""
