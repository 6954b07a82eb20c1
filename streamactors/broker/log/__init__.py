"""The log of a partition, in Kafka's own format on disk. Knows files and bytes, and neither sockets nor actors."""
