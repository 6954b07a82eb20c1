"""A graph on Spark's executors: each task runs the whole graph for a range of one partition.

`translate.py` makes a `Program` of a graph in the driver, or says why it cannot. Spark calls the data source in `entry.py`, which opens the
program: in the driver it plans batches (`planner.py`, over the pure `offsets.py`), in the executors it runs ranges (`program.py`, with
the state of windows in `states.py`). `runner.py` starts the query and `facade.py` is what users see."""
