"""SparkSink: the rows of a stream become batches of `foreachBatch`.

`spark_sink.py` is what users call. `sink_logic.py` runs in the stream: rows and marks go into `batches.py`, whose rules are in
`batch_state.py`. Spark's demand for the next batch is the stream's demand."""
