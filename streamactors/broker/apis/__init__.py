"""The APIs of this broker, one file `apiNN_name.py` for each API key NN. The file names make the route table."""
