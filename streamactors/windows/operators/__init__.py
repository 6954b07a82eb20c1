"""The operators of one task: a list of rows in, a list of rows out. No clock, no thread, no marks."""
