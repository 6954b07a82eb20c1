"""Why does a stream make no progress? `watchdog.py` finds the runs in which nothing moves, `diagnosis.py` says what they wait for."""
