"""Delta of first-visit statistics from H, L and the relation, without a study."""

from privalue.core import block_sensitivity, visit_block


def sensitivity(shape, *, most_states, trajectories_per_person=1, add_remove=False, count_weight):
    """Return Delta, in units of R."""
    largest, furthest = visit_block(count_weight)
    return block_sensitivity(
        shape,
        largest=largest,
        furthest=furthest,
        most_keys=most_states,
        most_trajectories=trajectories_per_person,
        add_remove=add_remove,
    )
