"""The partitions that the broker hosts, and the Produce and Fetch requests that wait for them."""
