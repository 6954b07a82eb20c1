"""What a user defines: windows, aggregations, suppression, and the blueprint of the computation."""
