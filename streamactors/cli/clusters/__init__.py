"""Commands about brokers and what they keep: `broker`, `cluster`, `topics`, `groups`, `transactions`, `users`, `acls` and others."""
