"""Operators that call user functions outside the island: map_async.py has the stages, calls.py starts calls and brings results back."""
