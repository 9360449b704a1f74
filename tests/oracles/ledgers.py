"""Ledgers whose totals and requests are for one trajectory, replace-one, unless a test says so."""

from privalue import ledger

USUAL = {"unit": "trajectory", "neighbours": "replace-one"}
LENIENT = {"strict": False}  # most tests commit short texts that are no releases
DECLARED = {**USUAL, "trajectories_per_person": 0, "accounting": "plain"}
RESERVED = {**USUAL, "mu": "none", "steps": 1, "process": "1@here"}


class UsualLedger(ledger.Ledger):
    """A ledger that fills in what nearly every test would write."""

    def declare(self, dataset, **amounts):
        return super().declare(dataset, **{**USUAL, **amounts})

    def reserve(self, dataset, study_hash, **amounts):
        return super().reserve(dataset, study_hash, **{**USUAL, **LENIENT, **amounts})

    def stored(self, dataset, study_hash, **options):
        return super().stored(dataset, study_hash, **{**LENIENT, **options})

    def verify(self, **options):
        return super().verify(**{**LENIENT, **options})


def open_ledger(location, **options):
    """As ``privalue.ledger.open_ledger``."""
    opened = ledger.open_ledger(location, **options)
    return UsualLedger(opened._store, opened._clock, seal=opened._seal)
