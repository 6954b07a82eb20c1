"""Stages that let upstream and downstream run at different speeds: they buffer, combine, repeat, drop or delay elements."""
