"""The Kafka protocol: primitives, headers and messages. Nothing here knows a socket, a log or a thread.

kio is named in this package only. Produce and Fetch are written by hand over memory views; all other messages go
through `messages`."""
