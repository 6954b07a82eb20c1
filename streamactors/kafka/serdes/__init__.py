"""Serdes: bytes to values and back, by name, by class, or by a schema in a registry.

`serdes.py` finds the serde of what a user gives; `typed_records.py` is for classes, `registry_serdes.py` for schemas."""
