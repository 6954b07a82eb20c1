"""Parts that join streams of different runs, or end and restart them: hubs, kill switches, restarts, topics, stream refs, TCP."""
