"""The operators of joins: each takes a list of rows of one side and returns a list of results. `topology/` puts them into tasks."""
