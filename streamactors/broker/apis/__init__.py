"""The APIs that this broker serves, one file each: `apiNN_name.py`, NN the API key. The route table is made of the file
names."""
