"""Thespian actors on an in-process system base: dispatchers, an elastic pool, timers and supervision."""
