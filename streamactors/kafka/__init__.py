"""Kafka from the client's side."""
