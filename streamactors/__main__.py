"""`python -m streamactors` is the command `streamactors`, for an environment whose scripts are not on the PATH."""

from streamactors.cli.main import main

main()
