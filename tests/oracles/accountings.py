"""Both ways to count on a ledger, for suites that run over both: plain sums, and squares of mu.

Cheap tests run over both as a rule. Others run over squares as a rule, as plain sums are what every
other suite uses, and over both in ``make long``.
"""

import pytest

BOTH = ["plain", "gaussian"]
SQUARES_FIRST = ["gaussian", pytest.param("plain", marks=pytest.mark.long)]
IN_BOTH = pytest.mark.parametrize("accounting", BOTH, indirect=True)


def in_turn(name, values):
    """Each value with one accounting as a rule, turn by turn, and with the other in ``make long``.

    Args:
        name: of the argument that takes the values.
        values: what it takes.
    """
    pairs = []
    for at, value in enumerate(values):
        usual, other = BOTH[:: -1 if at % 2 else 1]
        pairs += [(value, usual), pytest.param(value, other, marks=pytest.mark.long)]
    return pytest.mark.parametrize((name, "accounting"), pairs, indirect=["accounting"])
