"""The operators of tables in a topology: sources, views, stored views, aggregations of tables. `topology/` puts them into tasks."""
