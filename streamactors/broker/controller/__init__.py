"""The controller: cluster metadata as one log of records, the image it adds up to, and the rules for changing it."""
