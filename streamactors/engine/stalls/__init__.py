"""Why does a stream stand still? `watchdog.py` finds the runs in which nothing moves, `diagnosis.py` says what they wait for."""
