"""Seeded simulation of a user's own pipelines.

`world/` runs every task on one scheduler under virtual time. `cluster/` is a simulated Apache Kafka cluster over the broker's own state machines, and
`client/` has clients of it with the methods of confluent-kafka's. The product imports nothing of this package."""
