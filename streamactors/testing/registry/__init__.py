"""A schema registry for tests and demos: the REST protocol of Confluent's, in this process or as `streamactors registry`.

server            HTTP on loopback; which path calls what
subjects          subjects, versions, ids, levels and the file that keeps them
avro, json_schema what a change of a schema breaks"""
