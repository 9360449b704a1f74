"""The flags of each state of a release, one by one: the slow twin of estimate/flags."""

from privalue.releases import NOT_PRIVATE


def literal_flags(release, study):
    """The flags of every value, by the rules as docs/report.md words them."""
    bounds = study.values.return_bounds
    restriction = release.restriction
    width_bounds = bounds if restriction is None else (restriction.low, restriction.high)
    number = release.trajectories or study.study.trajectories
    flags_of_states = []
    for at, row in enumerate(release.values):
        flags = [] if release.private else [NOT_PRIVATE]
        if "useless" in release.accepted:
            flags.append("no better than guessing")
        if release.statistics is not None:
            if not row.supported:
                flags.append(("too few visits", "mostly made of other states' values"))
            elif row.total_high - row.total_low > (width_bounds[1] - width_bounds[0]) / 2:
                flags.append("wide interval")
        elif study.visit_prior is not None and (number or 0) * study.visit_prior[at] < 10:
            flags.append("rarely visited, by the public prior")
        if study.state_weights[at] == 0:
            flags.append("weight 0")
        clipped = release.statistics is None or study.features.kind == "matrix"
        if clipped and not bounds[0] < row.value < bounds[1]:
            flags.append("at a bound of returns")
        flags_of_states.append(flags)
    return flags_of_states


def agree(text, flags):
    """Whether a row has these flags, in this order; a tuple stands for any of its words."""
    words = text.split("; ") if text else []
    return len(words) == len(flags) and all(
        word in flag if isinstance(flag, tuple) else word == flag
        for word, flag in zip(words, flags, strict=True)
    )
