"""The SASL mechanisms of the broker. Each is a pure state machine: a token of the client in, a token of the broker out."""
