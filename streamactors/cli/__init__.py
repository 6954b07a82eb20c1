"""The command line: `streamactors …`."""
