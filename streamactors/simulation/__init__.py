"""Seeded simulation of a user's own pipelines.

`world/` runs every task on one scheduler under virtual time. The product imports nothing of this package."""
