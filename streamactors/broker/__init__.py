"""A Kafka-compatible broker made of actors."""
