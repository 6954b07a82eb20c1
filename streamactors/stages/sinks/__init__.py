"""Sinks: values.py collects, foreach.py calls a user function, the others hand elements to queues, actors and readers."""
