"""Stages that turn each element into one result, several or none. mapping.py has those that are fused (engine/fusing)."""
