"""The stage that runs windows in a graph: tasks per partition, the order of rows, marks and cuts."""
