"""Render the readers' error messages: a template for each code, in ``messages.toml``."""

from privalue.errors import DataError, read_texts


def render(code: str, **values: object) -> str:
    """Return the message of a code, with the names in braces replaced by values."""
    return " ".join(read_texts(__file__, "messages.toml")[code].split()).format(**values)


def data_error(code: str, **values: object) -> DataError:
    """Return the error of a code, with these values in its message."""
    return DataError(render(code, **values), code=code)


def list_some(names: list[str], most: int = 10) -> str:
    """Return the first ``most`` names as a list for a message."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
