"""Stages that pass a part of the stream: by number (counting.py) or by what an element is (predicates.py)."""
