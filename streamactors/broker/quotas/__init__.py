"""Client quotas: the limits of users, client ids and addresses, and how the broker slows down those who exceed them (KIP-13, KIP-55,
KIP-124, KIP-219, KIP-612)."""
