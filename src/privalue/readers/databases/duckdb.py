"""Read DuckDB files: a table, a view, or a query over them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from privalue.errors import one_line
from privalue.readers.databases.query import Batches, Query, quote, read_statement
from privalue.readers.messages import data_error, render
from privalue.readers.source import BATCH_ROWS

_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")


class DuckDbFile:
    """A DuckDB file, attached read-only."""

    tables = read_statement("duckdb-tables")

    def __init__(self, path: Path, threads: int, memory: int) -> None:
        self.path, self.place = path, str(path)
        self.threads, self.memory = threads, memory

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Yield a connection to an in-memory database with the file attached.

        Several processes may read the file at once. Spilling to disk is disabled: others could read
        the spilled rows, which would outlive a killed process. The connection neither loads
        extensions nor sees Python variables. The file's views are untrusted: the connection is
        restricted to the file and its log before the file is attached, and then its settings are
        locked.
        """
        config = {
            "threads": self.threads,
            "memory_limit": f"{max(self.memory >> 20, 64)}MiB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
        with closing(duckdb.connect(config=config)) as connection:
            self._attach(connection)
            yield connection

    def _attach(self, connection: Any) -> None:
        """Restrict a connection to the file, attach it read-only, and lock the settings."""
        file = self.path.absolute()
        allowed = ", ".join(_literal(f"{file}{end}") for end in ("", *_LOGS))
        # Attach under the file's own name, which a view may use, unless DuckDB reserves it.
        alias = "AS trial" if self.path.stem.lower() in {"memory", "system", "temp"} else ""
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute(f"ATTACH {_literal(str(file))} {alias} (READ_ONLY, TYPE duckdb)")
        ((name,),) = connection.execute(read_statement("duckdb-database")).fetchall()
        connection.execute(f"USE {quote(name)}")
        connection.execute("SET lock_configuration = true")

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Translate DuckDB's errors into one line, with advice on memory and permissions."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as problem:
            reason = one_line(problem)
            if isinstance(problem, duckdb.OutOfMemoryException):
                reason = render("duckdb-memory")
            elif isinstance(problem, duckdb.PermissionException):
                reason = render("duckdb-forbidden", problem=reason)
            raise data_error("unreadable", place=place, problem=reason) from None

    def schema(self, connection: Any, query: Query) -> pa.Schema:
        """Return the columns of a query, with their Arrow types."""
        # First, because ``sql`` immediately runs all statements but the last.
        kinds = [part.type for part in connection.extract_statements(query.sql)]
        if kinds != [duckdb.StatementType.SELECT]:
            raise data_error("query-kind", place=query.place)
        return connection.sql(query.sql).to_arrow_reader(1).schema

    def batches(self, connection: Any, query: Query, names: list[str]) -> Batches:
        """Yield the rows of a query, with these columns alone."""
        yield from connection.sql(query.select(names)).to_arrow_reader(BATCH_ROWS)


def _literal(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
