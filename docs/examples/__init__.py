"""Examples of operators, as data: docs/pictures.py runs and draws them, docs/generate.py puts them on the pages.

flows.py   operators of sources and flows
ends.py    sources and sinks
around.py  contexts, hubs, topics, kill switches, restarts"""
