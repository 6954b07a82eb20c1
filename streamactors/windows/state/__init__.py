"""The state of a task: stores, their bytes, and their changelog."""
