"""Ledgers whose totals and requests are for one trajectory, replace-one, unless a test says so.

One of "gaussian" accounting adds squares of mu: every request with a delta is by dp-ssp there.
"""

from privalue import ledger
from privalue.core import gaussian
from privalue.ledger._squares import square_cost
from privalue.ledger._units import cost, mu

USUAL = {"unit": "trajectory", "neighbours": "replace-one"}
LENIENT = {"strict": False}  # most tests commit short texts that are no releases
DECLARED = {**USUAL, "trajectories_per_person": 0, "accounting": "plain"}
RESERVED = {**USUAL, "mu": "none", "steps": 1, "process": "1@here"}


class UsualLedger(ledger.Ledger):
    """A ledger that fills in what nearly every test would write."""

    accounting = "plain"

    def declare(self, dataset, **amounts):
        return super().declare(dataset, **{**USUAL, "accounting": self.accounting, **amounts})

    def reserve(self, dataset, study_hash, **amounts):
        return super().reserve(
            dataset, study_hash, **{**USUAL, **LENIENT, **self._mu(**amounts), **amounts}
        )

    def stored(self, dataset, study_hash, **options):
        return super().stored(dataset, study_hash, **{**LENIENT, **options})

    def verify(self, **options):
        return super().verify(**{**LENIENT, **options})

    def price(self, epsilon, delta):
        """What a release costs here."""
        found = self._mu(epsilon=epsilon, delta=delta)
        if found:
            return ledger.Cost(square=square_cost(mu(found["gaussian_alpha"]), 1))
        return cost("people", epsilon, delta)

    def _mu(self, epsilon=None, delta=None, **_):
        if self.accounting == "plain" or not delta:
            return {}
        return {"gaussian_alpha": gaussian(epsilon, delta).alpha}


def open_ledger(location, *, accounting="plain", **options):
    """As ``privalue.ledger.open_ledger``; ``accounting`` of the totals that are declared."""
    opened = ledger.open_ledger(location, **options)
    usual = UsualLedger(opened._store, opened._clock, seal=opened._seal)
    usual.accounting = accounting
    return usual
