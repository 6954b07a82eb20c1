"""The constructors of Source, one mix-in per topic."""
