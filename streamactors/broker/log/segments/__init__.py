"""The segments of a log: files of batches with their indexes of offsets, timestamps and aborted transactions."""
