"""Serdes: bytes to values and back, by name, by class, or by a schema in a registry.

`serdes.py` finds the serde for a name, a pair of functions or an object; `typed_records.py` is for classes, `registry_serdes.py` for schemas."""
