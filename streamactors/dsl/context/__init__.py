"""Streams whose elements carry a context: operators.py has their operators, with_context.py the two classes."""
