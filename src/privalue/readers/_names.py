"""Tell from its name alone what data is: a query, or something that is opened by its name."""

import re
from pathlib import Path

_QUERY = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)
_REQUEST = re.compile(r"\s*(\(|(select|with|from|values|table)\b)", re.IGNORECASE)


def is_query(data: object) -> bool:
    """Return whether the name of data is a query, and not a file."""
    return isinstance(data, str) and bool(_QUERY.match(data)) and not Path(data).exists()


def asks_a_database(data: object) -> bool:
    """Return whether rows are the result of a query, which may combine several units."""
    text = str(data) if isinstance(data, str | Path) else ""
    after = (text[mark.end() :] for mark in re.finditer("::", text))  # a query has casts of its own
    return is_query(data) or any(_REQUEST.match(request) for request in after)
