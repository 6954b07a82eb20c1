"""The format `streamactors`: a Kafka source with its steps, named by MODULE:SOURCE, as a streaming DataFrame.

Spark calls the classes in `entry.py`, which travel to its processes by value. `reading.py` says what the options
mean, imports the source in the driver's source process, and packs the query that SparkSource.frame packs in the driver."""
