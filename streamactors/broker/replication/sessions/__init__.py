"""Fetch sessions (KIP-227): a client names a partition once, and later only what changes.

`fetch_session` is one session at the broker that is asked, `session_cache` holds all of them, and `follower_session` is the other side: what a
follower has told its leader. The handler of Fetch and `HostedPartition` call the first two, the replica fetcher calls the third."""
