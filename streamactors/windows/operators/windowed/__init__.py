"""The operators of windows: tumbling and hopping (`time_*`), sessions, sliding windows; closing order, and late rows."""
