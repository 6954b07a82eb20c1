"""Stages that run sources inside themselves."""
