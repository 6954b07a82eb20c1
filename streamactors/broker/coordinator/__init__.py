"""What group and transaction coordinators share: an internal topic as their memory, read at start and written before
answering."""
