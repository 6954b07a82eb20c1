"""Stages that handle the failure of their upstream."""
