"""The stream engine: ports, demand, chunks, marks, islands and materialization. Knows no operator and no DSL."""
