"""The replicated metadata log (KRaft): who leads it, and copies of it on other nodes. It knows nothing of topics.

`raft/` has the rules of a replica, which are pure: elections, votes, epochs, the high watermark. `Quorum` carries their effects out on the log of
a controller, and `vote_file` keeps the vote. `observer_state` holds the rules of a node that follows the log without a vote; `Observer` carries
them out. `voter_set` says who the voters are, `voter_changes` when one may be added or removed."""
