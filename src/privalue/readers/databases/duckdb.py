"""Read DuckDB files: a table, a view, or a query over them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa

from privalue.readers.databases.query import Batches, Query, quoted, statement
from privalue.readers.messages import data_error, one_line, word
from privalue.readers.source import BATCH_ROWS, texts

_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
# Whole numbers that Arrow has no type for; they are exact as texts, cell by cell.
_AS_TEXT = {"HUGEINT", "UHUGEINT", "BIGNUM", "VARINT"}


@dataclass(frozen=True)
class DuckDbFile:
    """A file that is attached for reading only."""

    path: Path
    threads: int
    memory: int

    tables: ClassVar[str] = statement("duckdb-tables")

    @property
    def place(self) -> str:
        """Return what messages call it."""
        return str(self.path)

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Yield a connection to a database of our own, in memory, with the file attached.

        So several processes may read the file. It may not spill to disk: its files would have a
        name, be readable, and outlive a killed process. It neither loads extensions nor sees
        variables of Python. Whoever made the file also wrote its views: nothing but the file and
        its log can be opened, from before it is attached, and what is set cannot be set anew.
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
            try:
                self._attach(connection)
            except duckdb.Error as problem:
                said = one_line(problem)
                raise data_error("duckdb-unopened", path=self.path, problem=said) from None
            yield connection

    def _attach(self, connection: Any) -> None:
        file = self.path.absolute()
        head, mark, tail = str(file).partition("?")  # DuckDB calls a file's log so
        logs = (f"{head}{end}{mark}{tail}" for end in _LOGS)
        allowed = ", ".join(_literal(name) for name in (str(file), *logs))
        # The file's own name, because a view may use it, unless DuckDB has taken that name.
        alias = "AS trial" if self.path.stem.lower() in {"memory", "system", "temp"} else ""
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute(f"ATTACH {_literal(str(file))} {alias} (READ_ONLY, TYPE duckdb)")
        ((own,),) = connection.execute(
            "SELECT database_name FROM duckdb_databases()"
            " WHERE NOT internal AND database_name <> 'memory'"
        ).fetchall()
        connection.execute(f"USE {quoted(own)}")
        connection.execute("SET lock_configuration = true")

    @contextmanager
    def errors(self, place: str) -> Iterator[None]:
        """Turn what DuckDB says into one line; if memory or rights run out, say what to do."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            said = one_line(problem)
            if isinstance(problem, duckdb.OutOfMemoryException):
                said = word("duckdb-memory")
            elif isinstance(problem, duckdb.PermissionException):
                said = word("duckdb-forbidden", problem=said)
            raise data_error("unreadable", place=place, problem=said) from None

    def schema(self, connection: Any, query: Query) -> pa.Schema:
        """Return the columns of a query, in the types that Arrow has for them."""
        # DuckDB would run all but the last one of several statements at once.
        kinds = [statement.type for statement in connection.extract_statements(query.sql)]
        if kinds != [duckdb.StatementType.SELECT]:
            raise data_error("query-kind", place=query.place)
        names = connection.sql(query.sql).columns
        if len(set(names)) < len(names):
            return texts(names)
        return self._select(connection, query, names).to_arrow_reader(1).schema

    def batches(self, connection: Any, query: Query, names: list[str]) -> Batches:
        """Yield these columns of a query's rows."""
        yield from self._select(connection, query, names).to_arrow_reader(BATCH_ROWS)

    def _select(self, connection: Any, query: Query, names: list[str]) -> duckdb.DuckDBPyRelation:
        """Return some columns of a query, those without an exact type in Arrow as texts."""
        whole = connection.sql(query.sql)
        types = dict(zip(whole.columns, map(str, whole.types), strict=True))
        cells = (
            f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}"
            if types[name] in _AS_TEXT
            else quoted(name)
            for name in names
        )
        return connection.sql(f"SELECT {', '.join(cells)} FROM ({query.sql})")


def _literal(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
