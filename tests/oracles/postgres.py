"""A private PostgreSQL server on a socket in a folder of its own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import pytest


class Server:
    """Runs until it is stopped; its folder is the caller's to remove."""

    def __init__(self, *options):
        programs = [shutil.which("initdb"), *Path("/usr/lib/postgresql").glob("*/bin/initdb")]
        binaries = [Path(path).resolve().parent for path in programs if path]
        if not binaries:
            pytest.skip("no PostgreSQL server: install Debian's package postgresql")
        self.binaries = binaries[-1]
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-pg-"))
        self.identity = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            names = {entry.pw_name for entry in pwd.getpwall()}
            user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        flags = ("--no-sync", "--auth=trust", "--username=keeper", "--encoding=UTF8", "--locale=C")
        self._run("initdb", *flags, *options, "-D", self.data)
        self.process = None
        self.start()

    @property
    def data(self):
        return str(self.folder / "data")

    def _run(self, program, *arguments):
        subprocess.run(
            [self.binaries / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self.identity,
        )

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.binaries / "postgres", "-D", self.data, "-k", self.folder),
                    *("-c", "listen_addresses=", "-c", "max_connections=100"),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self.identity,
            )
        while True:
            try:
                self.execute("SELECT 1")
                return
            except Exception:
                if self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.process.wait()

    def address(self, schema="public", database="postgres", user="keeper"):
        options = quote(f"-csearch_path={schema}")
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder))}&options={options}"

    def execute(self, statement):
        import psycopg

        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(statement)

    def wait_for(self, setting, value):
        """Until a new connection has the setting: the server reads it when it gets to it."""
        import psycopg

        while True:
            with psycopg.connect(self.address(), autocommit=True) as connection:
                if connection.execute(f"SHOW {setting}").fetchone() == (value,):
                    return
            time.sleep(0.05)
