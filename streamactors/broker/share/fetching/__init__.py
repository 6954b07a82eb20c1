"""Share fetches on the brokers that lead partitions (KIP-932).

`SharePartitions` has a `LedSharePartition` for each share partition that a fetch has named: it loads the state, stores changes and times locks
out. `share_sessions` remembers what a member fetches, `share_reading` reads and acquires, and a `DelayedShareFetch` waits for records."""
