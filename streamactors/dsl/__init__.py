"""What users write: Source, Flow, Sink, GraphDSL."""
