"""Name the states that nobody visits, according to a world or the study's own prior."""

import numpy as np

from privalue.planning._public_model import PublicModel
from privalue.study import Study

_NAMED = 5


def unvisited_states(study: Study, model: PublicModel | None = None) -> list[str]:
    """Return the labels of the states, or pairs, that no trajectory visits, in their order.

    Args:
        study: what is public.
        model: of a world; the study's prior of visits counts, if left out or made up.

    Returns:
        The labels; none where there is neither a world nor a prior.
    """
    visits = model.visits if model is not None and model.known else study.visit_prior
    if visits is None:
        return []
    # With arms, the first is like the others.
    nobody = np.flatnonzero(visits[: study.keys_per_arm] == 0)
    if study.pairs is not None:
        return [study.pairs.label(at) for at in nobody.tolist()]
    return [study.state_labels[at] for at in nobody.tolist()]


def unvisited_words(labels: list[str], source: str, *, pairs: bool = False) -> str | None:
    """Return the advice to leave them out, or None if every state is visited.

    Args:
        labels: from ``unvisited_states``.
        source: who says so, as the sentence names it.
        pairs: whether the labels are of pairs of a state and an action.
    """
    if not labels:
        return None
    named = ", ".join(f'"{label}"' for label in labels[:_NAMED])
    more = f" and {len(labels) - _NAMED:,} more" if len(labels) > _NAMED else ""
    them = "it" if len(labels) == 1 else "them"
    met, where = (
        ("takes pair", 'what is allowed ([actions] allowed = "allowed.csv")')
        if pairs
        else ("visits state", "[states]")
    )
    return (
        f"by {source} nobody {met}{'' if len(labels) == 1 else 's'} {named}{more}: leave {them} "
        f"out of {where}, since all that would be released of {them} is noise"
    )
