"""State of windows and tables between runs: changelog topics, the disk, standby copies and global tables."""
