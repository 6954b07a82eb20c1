"""The test kit: probes, virtual time, leak checks, pytest fixtures."""
