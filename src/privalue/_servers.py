"""Whether a server answered: what it refuses is an error, what nobody answers may be tried again.

The drivers of databases do not tell the two apart.
"""

import re
from typing import Any

# SQLSTATE: the server is told to stop, crashed, is not ready, or has no room for one more. Class 08
# is about the connection itself.
_AWAY = {"57P01", "57P02", "57P03", "53300"}
# Before a connection stands there is no SQLSTATE, only words; the server's own begin with FATAL.
_REFUSED = re.compile("FATAL|no password supplied|not support SSL|SSL error|certificate")
_NOT_READY = re.compile(
    "starting up|shutting down|recovery|accepting connections|too many|connection slots"
    "|terminating connection"
)


def unanswered(problem: Exception, driver: Any) -> bool:
    """Whether an error of a PostgreSQL driver means that no server answered, or that it went away.

    What cannot be told, such as a refusal in another language, is taken for no answer: trying
    again does no harm.
    """
    if not isinstance(problem, driver.OperationalError):
        return False
    state = getattr(problem, "sqlstate", None)
    if state is not None:
        return state in _AWAY or state.startswith("08")
    said = str(problem)
    return _REFUSED.search(said) is None or _NOT_READY.search(said) is not None
