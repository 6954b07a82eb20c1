"""The data folders of one broker (log.dirs).

LogManager opens DataFolders, the folders together: they belong to one node, and a new partition goes to one of them. DataFolder is one: its lock,
its MetaProperties, its checkpoints, its failure. folder_names has the names of the folders of logs in it. FutureLog is the copy of a log that
moves from one folder to another."""
