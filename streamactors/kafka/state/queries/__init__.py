"""Queries of the stores of a running group: this instance answers over HTTP, and asks the other instances."""
