"""Stages that end or restart a running part: kill switches, and sources, flows and sinks that start again after a back-off."""
