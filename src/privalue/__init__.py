"""Evaluate policies with differential privacy.

From people's trajectories, ``release`` publishes the value function V(s) of the policy that they
followed, and hides each person's record; ``inspect`` shows the curator the private diagnostics.

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

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from privalue.version import VERSION as __version__  # noqa: N811

# isort: off
if TYPE_CHECKING:  # type checkers do not follow ``__getattr__``; ``as`` marks exports
    from privalue.releases import Release as Release
    from privalue.core.calibration import Profile as Profile, privacy_profile as privacy_profile
    from privalue.curator import (
        Diagnostics as Diagnostics,
        finish as finish,
        inspect as inspect,
        release as release,
    )
    from privalue.errors import (
        BudgetError as BudgetError,
        ChargedError as ChargedError,
        DataError as DataError,
        LedgerError as LedgerError,
        MissingComponentError as MissingComponentError,
        PrivalueError as PrivalueError,
        PrivalueWarning as PrivalueWarning,
        PrivateValueError as PrivateValueError,
        StudyError as StudyError,
        UnavailableError as UnavailableError,
        UsageError as UsageError,
    )
    from privalue.estimate import (
        Improvement as Improvement,
        difference as difference,
        improve as improve,
        pool as pool,
        refit as refit,
    )
    from privalue.ledger import Outbox as Outbox, open_ledger as open_ledger
    from privalue.planning import Plan as Plan, plan as plan
    from privalue.report import (
        ReleaseFiles as ReleaseFiles,
        StudyCheck as StudyCheck,
        check as check,
        publish as publish,
    )
    from privalue.simulation import (
        SeededForExperimentsOnly as SeededForExperimentsOnly,
        rollout as rollout,
        simulate as simulate,
        world as world,
    )
    from privalue.study import Study as Study
# isort: on

# The public names by their modules, imported when a name is first used: importing all of them
# takes longer than most uses of one.
_NAMES = {
    "core.calibration": ("Profile", "privacy_profile"),
    "curator": ("Diagnostics", "finish", "inspect", "release"),
    "errors": (
        "BudgetError",
        "ChargedError",
        "DataError",
        "LedgerError",
        "MissingComponentError",
        "PrivalueError",
        "PrivalueWarning",
        "PrivateValueError",
        "StudyError",
        "UnavailableError",
        "UsageError",
    ),
    "estimate": ("Improvement", "difference", "improve", "pool", "refit"),
    "ledger": ("Outbox", "open_ledger"),
    "planning": ("Plan", "plan"),
    "releases": ("Release",),
    "report": ("ReleaseFiles", "StudyCheck", "check", "publish"),
    "simulation": ("SeededForExperimentsOnly", "rollout", "simulate", "world"),
    "study": ("Study",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_MODULES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Fetch a public name from its module, once."""
    if name not in _MODULES:
        message = f"module 'privalue' has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    value = globals()[name] = getattr(import_module(f"privalue.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, fetched or not."""
    return sorted(__all__)
