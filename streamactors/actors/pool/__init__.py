"""The elastic pool: threads on which cells take turns. It grows when turns block (`pool_watch.py`, `starvation.py`)."""
