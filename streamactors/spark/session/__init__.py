"""The session: a Spark that starts on any machine with Python, with the Java and the Python that its processes run."""
