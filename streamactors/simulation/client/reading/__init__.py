"""A consumer's partitions: `fetcher.py` fetches them and owns a `Reading` (`reading.py`) for each; `beginning.py` finds where they begin;
`ready.py` is the queue that `poll` takes from."""
