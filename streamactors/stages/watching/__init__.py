"""Stages that pass every element on and report what happens."""
