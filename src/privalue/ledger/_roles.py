"""Print the rights of roles in PostgreSQL: who releases cannot declare.

The releasing role reads everything, and adds entries and artefacts. It has no right to fill the
column ``seal``, and an entry that declares or rests counts only where that is filled: so it can
neither raise a total nor invent a snapshot, whatever SQL it sends. Rows that do not continue the
chain are refused by a trigger that it cannot switch off.
"""

_TABLES = ("ledger_entries", "ledger_artefacts")
_TURN = "ledger_turn"  # an empty table that writers lock; PostgreSQL has no weaker right for that
_COLUMNS = {"ledger_entries": "sequence, body, hash", "ledger_artefacts": "hash, text"}


def grants(schema: str, role: str, keeper: str | None) -> str:
    """Return the SQL that gives a role what releasing takes, and no more.

    Args:
        schema: where the tables are.
        role: who releases; it exists, makes no roles, and can become no owner and no superuser.
        keeper: who declares, if not the owner of the tables.

    Returns:
        Statements, to be run by the owner of the tables.
    """
    inside, clerk = _name(schema), _name(role)
    tables = ", ".join(f"{inside}.{table}" for table in _TABLES)
    turn = f"{inside}.{_TURN}"
    entries = _text(f"{inside}.ledger_entries")
    lines = [
        "-- To be run by the owner of the ledger's tables: psql -v ON_ERROR_STOP=1, or any client.",
        "BEGIN;",
        f"REVOKE CREATE ON SCHEMA {inside} FROM PUBLIC, {clerk};",
        f"REVOKE ALL ON {tables}, {turn} FROM PUBLIC, {clerk};",
        f"GRANT USAGE ON SCHEMA {inside} TO {clerk};",
        f"GRANT SELECT ON {tables} TO {clerk};",
        f"GRANT DELETE ON {turn} TO {clerk};",
        *(
            f"GRANT INSERT ({columns}) ON {inside}.{table} TO {clerk};"
            for table, columns in _COLUMNS.items()
        ),
        # Rights that come by another way would make all of this void: those of any role that this
        # one can become (SET ROLE), inherited or not, and who makes roles can become most of them.
        "DO $rights$ BEGIN IF EXISTS (SELECT FROM pg_roles AS other"
        f" WHERE pg_has_role({_text(role)}, other.oid, 'MEMBER')"
        " AND (other.rolsuper OR other.rolcreaterole OR other.rolname IN ('pg_write_all_data',"
        " 'pg_write_server_files', 'pg_execute_server_program') OR other.oid IN ("
        " SELECT relowner FROM pg_class WHERE relnamespace = (SELECT relnamespace FROM pg_class"
        f" WHERE oid = {entries}::regclass) AND relname LIKE 'ledger%'"
        " UNION SELECT nspowner FROM pg_namespace JOIN pg_class ON pg_namespace.oid = relnamespace"
        f" WHERE pg_class.oid = {entries}::regclass"
        " UNION SELECT datdba FROM pg_database WHERE datname = current_database())"
        f" OR has_column_privilege(other.oid, {entries}, 'seal', 'INSERT') OR"
        f" has_table_privilege(other.oid, {entries}, 'UPDATE, DELETE, TRUNCATE, TRIGGER')))",
        f"  THEN RAISE EXCEPTION '% has more rights by another role, owns what the ledger is in, "
        f"makes roles, or is a superuser', {_text(role)}; END IF; END $rights$;",
    ]
    if keeper is not None:
        lines += [
            f"GRANT USAGE ON SCHEMA {inside} TO {_name(keeper)};",
            f"GRANT SELECT, INSERT ON {tables} TO {_name(keeper)};",
            f"GRANT DELETE ON {turn} TO {_name(keeper)};",
        ]
    return "\n".join([*lines, "COMMIT;"])


def _name(text: str) -> str:
    """Return an SQL identifier."""
    return '"' + text.replace('"', '""') + '"'


def _text(text: str) -> str:
    """Return an SQL text."""
    return "'" + text.replace("'", "''") + "'"
