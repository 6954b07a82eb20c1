"""Worker processes and their links.

`job.py` makes a job of a function and its arguments. `link.py` starts a process (`process.py`) for a job and exchanges frames (`frames.py`) with it
over a socket pair; in the process `child.py` runs the job. `chunks.py` turns chunks of elements into bytes and back."""
