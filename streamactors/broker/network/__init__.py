"""The broker's network: listeners, connections, frames and what leaves again.

Everything here belongs to the data plane's thread. It knows the size of a frame and the order of answers; what a frame
means is none of its business."""
