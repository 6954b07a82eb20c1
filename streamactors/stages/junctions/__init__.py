"""Stages with several inlets (fan_in.py, zipping.py) or several outlets (fan_out.py, zipping.py)."""
