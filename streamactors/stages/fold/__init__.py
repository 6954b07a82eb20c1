"""Stages that combine several elements: into one value (fold.py) or into lists (grouping.py)."""
