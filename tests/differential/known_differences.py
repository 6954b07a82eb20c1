"""Where this broker answers otherwise than Apache Kafka 4.1.1, and why."""

DIFFERENCES: dict[str, str] = {}
