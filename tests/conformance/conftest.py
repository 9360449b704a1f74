"""Fixtures that are slow to start: a Spark session, a PostgreSQL server."""

import os
import shutil

import pytest

from oracles.sources import Place
from oracles.spark import start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start a session for the first test that needs it, and stop it at the end."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime, and there is none")
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def start_server():
    """Return a function that starts a PostgreSQL server on its first call."""
    started = []

    def start():
        if not started:
            pytest.importorskip("psycopg", reason="the extra postgres is not installed")
            from oracles.postgres import Server

            started.append(Server())
        return started[0]

    yield start
    for server in started:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def place(tmp_path, start_server):
    return Place(tmp_path, start_server)
