"""Stages that follow the system's clock: delays, spans, time-outs."""
