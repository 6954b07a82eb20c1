"""A running query: its handle (`query.py`), the thread that runs it (`runner.py`), its checkpoint, and the identity of its sources."""
