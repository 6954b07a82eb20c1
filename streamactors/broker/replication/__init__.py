"""Partitions as the broker hosts them: a log with a leader, an epoch and a high watermark, and the requests that wait
for one."""
