"""Evaluate policies with differential privacy.

From people's trajectories, ``release`` publishes the value function of the policy behind them, V(s)
for every state, and hides each person's record; ``inspect`` shows the curator what stays private.

>>> import privalue as pv
>>> study = pv.Study(
...     states=["ill", "well"],
...     discount=0.9,
...     returns=(0, 1),
...     epsilon=1.0,
...     delta=1e-5,
...     unit="trajectory",
... )
>>> people = [[("ill", 0.0), ("well", 1.0)], [("ill", 0.0), ("ill", 0.0), ("well", 1.0)]] * 500
>>> release = pv.release(study, people)
>>> [value.state for value in release.values]
['ill', 'well']
>>> pv.inspect(study, people)
Diagnostics(private, mechanism='dp-ssp', states=2)
"""

from privalue import _entry as _entry  # first: it answers interrupts while the rest is imported

# isort: split
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from privalue.version import VERSION as __version__  # noqa: N811

if TYPE_CHECKING:  # for those who read types; at run time a name is fetched when it is first used
    from privalue._charged import finish
    from privalue._checked import Checked, check
    from privalue._comparison import Comparison, compare
    from privalue._diagnostics import Diagnostics, PolicyDiagnostics
    from privalue._improved import Improvement, improve
    from privalue._outbox import Outbox
    from privalue._planned import Plan, plan
    from privalue.artefact import Release
    from privalue.core import Profile, SeededForExperimentsOnly, privacy_profile
    from privalue.curator import inspect, release
    from privalue.errors import (
        BudgetError,
        ChargedError,
        DataError,
        LedgerError,
        MissingComponentError,
        PrivalueError,
        PrivalueWarning,
        PrivateValueError,
        StudyError,
        UnavailableError,
        UsageError,
    )
    from privalue.estimate import refit
    from privalue.ledger import open_ledger
    from privalue.planning import PolicyPlan, plan_policy, resolve
    from privalue.report import Published, publish
    from privalue.simulation import simulate
    from privalue.study import Study

# The room of every name: to import them all takes longer than most uses of one of them.
_ROOMS = {
    "_charged": ("finish",),
    "_checked": ("Checked", "check"),
    "_comparison": ("Comparison", "compare"),
    "_diagnostics": ("Diagnostics", "PolicyDiagnostics"),
    "_improved": ("Improvement", "improve"),
    "_outbox": ("Outbox",),
    "_planned": ("Plan", "plan"),
    "artefact": ("Release",),
    "core": ("Profile", "SeededForExperimentsOnly", "privacy_profile"),
    "curator": ("inspect", "release"),
    "errors": (
        *("BudgetError", "ChargedError", "DataError", "LedgerError", "MissingComponentError"),
        *("PrivalueError", "PrivalueWarning", "PrivateValueError", "StudyError"),
        *("UnavailableError", "UsageError"),
    ),
    "estimate": ("refit",),
    "ledger": ("open_ledger",),
    "planning": ("PolicyPlan", "plan_policy", "resolve"),
    "report": ("Published", "publish"),
    "simulation": ("simulate",),
    "study": ("Study",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "BudgetError",
    "ChargedError",
    "Checked",
    "Comparison",
    "DataError",
    "Diagnostics",
    "Improvement",
    "LedgerError",
    "MissingComponentError",
    "Outbox",
    "Plan",
    "PolicyDiagnostics",
    "PolicyPlan",
    "PrivalueError",
    "PrivalueWarning",
    "PrivateValueError",
    "Profile",
    "Published",
    "Release",
    "SeededForExperimentsOnly",
    "Study",
    "StudyError",
    "UnavailableError",
    "UsageError",
    "__version__",
    "check",
    "compare",
    "finish",
    "improve",
    "inspect",
    "open_ledger",
    "plan",
    "plan_policy",
    "privacy_profile",
    "publish",
    "refit",
    "release",
    "resolve",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Fetch a name from its room, once."""
    if name not in _ROOM_OF:
        what = f"module 'privalue' has no attribute {name!r}"
        raise AttributeError(what, name=name, obj=sys.modules[__name__])
    found = globals()[name] = getattr(import_module(f"privalue.{_ROOM_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    """Return the names that the package exports, fetched or not."""
    return sorted(__all__)
