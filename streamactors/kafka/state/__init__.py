"""What windows and topologies need of Kafka: topics between two parts of a run, and the state between two runs.

`topics.py` runs a topology over topics (`Consumer.topics`), `repartition.py` a stream of windows with new keys. `topology_rows.py` and
`topic_rows.py` turn records into rows and back. `source_services.py` is what the source stages are given of all that. `changelogs/` keeps the state,
`queries/` answers readers of it."""
