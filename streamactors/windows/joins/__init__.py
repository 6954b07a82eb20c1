"""The operators of joins: a list of rows of one side in, a list of results out. `topology/` puts them into tasks."""
