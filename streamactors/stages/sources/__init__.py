"""Sources: over iterables, functions, futures, timers, queues and actors."""
