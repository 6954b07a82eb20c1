"""A PostgreSQL server for the tests of a module, where the machine has one."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def as_server_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: return the arguments of subprocess for another user."""
    if os.geteuid():
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {}


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A real server on a socket file of its own; the connection string."""
    initdb, server = shutil.which("initdb"), shutil.which("postgres")
    if initdb is None or server is None:
        pytest.skip("needs PostgreSQL's initdb and postgres on the path")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    who = as_server_user()
    if who:
        os.chown(folder, who["user"], who["group"])
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": folder, **who}
    data = str(folder / "data")
    try:
        subprocess.run([initdb, "-D", data, "-U", "test", "-A", "trust", "--no-sync"], check=True, **quiet)
        with (folder / "log").open("wb") as log:
            quiet["stdout"] = log
            running = subprocess.Popen(
                [server, "-D", data, "-k", str(folder), "-c", "listen_addresses=", "-F"], **quiet
            )
        try:
            import psycopg

            where = f"host={folder} user=test dbname=postgres"
            for _ in range(200):
                try:
                    psycopg.connect(where).close()
                    break
                except psycopg.OperationalError:
                    assert running.poll() is None, (folder / "log").read_text()
                    threading.Event().wait(0.05)
            yield where
        finally:
            running.terminate()
            running.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
