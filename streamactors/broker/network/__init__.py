"""The broker's network: listeners, connections, frames and output.

The data plane's thread owns everything here. The network knows the size of a frame and the order of answers. It does not
interpret requests."""
