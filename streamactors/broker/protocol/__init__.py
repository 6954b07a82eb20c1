"""The Kafka protocol: primitives, headers and messages, without sockets, logs and threads.

Only this package imports kio. Produce, Fetch and Metadata responses have codecs written by hand; all other messages use
`messages`."""
