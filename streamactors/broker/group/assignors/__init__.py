"""Assignors of the coordinator: they compute which member is to have which partitions. Pure.

`group_spec.py` is the input. `assign(name, spec)` in `assignors.py` calls `uniform.py` (`uniform_mixed.py` where the members subscribe to different topics) or
`range.py`. Results are Apache Kafka's, to the partition; they depend on the order in which Java iterates hash tables, which `hash_order.py` reproduces."""
