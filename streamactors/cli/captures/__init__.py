"""The commands of captures: `capture` makes a capsule of a live group, `replay` runs a graph on it."""
