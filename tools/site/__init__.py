"""The documentation site. `build.py` runs mkdocs, which calls `hooks.py`; `tree.py` says which file of the tree is which page, and `llms.py` lists the pages for programs."""
