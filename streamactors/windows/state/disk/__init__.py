"""State on disk: `folder` owns the folder of an application, `rocks` one database, `task_disk` the entries of one task in it.

A cut's entries are visible in `task_disk` at once and are written after the cut is committed, in one batch with the changelog's offsets.
`hot` keeps decoded objects in front of it; `disk_rows` and `disk_waiting` serve joins and suppress buffers. Only `rocks` imports rocksdict."""
