"""Processors: user code that sees every row, keeps state in stores, sets timers and forwards records.

`definitions` and `store_definitions` are what users write; `node` runs one processor of one task; `context` is what the processor sees of it.
`punctuation` and `timers` say what is due. The stores are in `key_value`, `window`, `session` and `versioned`, above `StateStore`."""
