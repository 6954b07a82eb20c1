"""Settings of brokers and topics: names, types, defaults, limits, and the source of each value."""
