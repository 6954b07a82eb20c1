"""What a broker and a topic can be told: names, types, defaults, limits and where a value came from."""
