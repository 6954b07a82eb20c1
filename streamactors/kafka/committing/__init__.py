"""The committer stage: commits the offsets that a stream carries with its elements."""
