"""The replicated metadata log (KRaft): who leads it, and copies of it on other nodes. It knows nothing of topics.

`observer_state` holds the rules of a node that follows the log without a vote; `Observer` carries them out."""
