"""Commands about records: `produce`, `consume`, `dead-letters`."""
