"""The replicated metadata log (KRaft): who leads it, and copies of it on other nodes. It knows nothing of topics.

`raft_state` holds the rules of a replica: elections, votes, epochs, the high watermark. It is pure, takes `raft_messages` and returns
`raft_effects`. `leader_progress` counts for a leader, and `vote_file` keeps the vote. `Quorum` carries the effects out, on the log of a controller. `observer_state` holds the rules of a node that
follows the log without a vote; `Observer` carries them out."""
