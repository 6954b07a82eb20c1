"""The cluster metadata: its records, the image that they result in, and the delta between two images.

The controller appends records and makes images. Handlers, coordinators and the data plane read them."""
