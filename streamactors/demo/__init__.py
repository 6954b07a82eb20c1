"""The main job: 336,776 real flights through the broker, stream graphs and Spark. `make demo`, or `streamactors demo`.

Uses the public API only. Each step is a file with its graph in it: produce, flights_to_spark, hours, hours_to_spark, alerts."""
