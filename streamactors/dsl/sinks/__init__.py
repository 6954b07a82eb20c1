"""The constructors of Sink, one mix-in per topic."""
