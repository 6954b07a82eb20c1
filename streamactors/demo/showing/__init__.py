"""What the demo shows: progress while it runs, the waiting partitions, the report and the pictures."""
