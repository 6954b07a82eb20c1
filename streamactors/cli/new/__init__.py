"""`streamactors new`: the command, and the files of a new project under `template/`."""
