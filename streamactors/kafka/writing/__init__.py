"""The producer stage: sends records and lets marks pass once the broker has acknowledged them."""
