"""Flows that cut a stream of bytes into frames: by a delimiter, by a length field, by JSON objects, into lines of text."""
