"""Graphs with junctions and cycles: graph_dsl.py wires placed parts, ports.py are their handles, component.py the parts it makes."""
