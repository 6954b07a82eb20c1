"""Kafka's record batches: header views, readers, builders, codecs. Knows bytes, and neither files nor sockets."""
