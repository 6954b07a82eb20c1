"""A consumer's place in its group: `member.py` is what the consumer knows of it."""
