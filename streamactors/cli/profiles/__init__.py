"""Profiles of clusters: the file that holds them, the choice of one, and the command that lists them."""
