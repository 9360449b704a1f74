"""What to be careful about in each state of a release, one by one: the twin of estimate/flags."""

from privalue.releases import NOT_PRIVATE


def literal_flags(release, study):
    """The flags of every value, by the rules as docs/report.md words them."""
    bounds = study.values.return_bounds
    held = release.restriction
    between = bounds if held is None else (held.low, held.high)
    number = release.trajectories or study.study.trajectories
    found = []
    for at, row in enumerate(release.values):
        flags = [] if release.private else [NOT_PRIVATE]
        if "useless" in release.accepted:
            flags.append("no better than guessing")
        if release.statistics is not None:
            if not row.supported:
                flags.append(("too few visits", "mostly made of other states' values"))
            elif row.total_high - row.total_low > (between[1] - between[0]) / 2:
                flags.append("wide interval")
        elif study.visit_prior is not None and (number or 0) * study.visit_prior[at] < 10:
            flags.append("rarely visited, by the public prior")
        if study.state_weights[at] == 0:
            flags.append("weight 0")
        clipped = release.statistics is None or study.features.kind == "matrix"
        if clipped and not bounds[0] < row.value < bounds[1]:
            flags.append("at a bound of returns")
        found.append(flags)
    return found


def agree(text, flags):
    """Whether a row has these flags, in this order; of a tuple, one of its words."""
    words = text.split("; ") if text else []
    return len(words) == len(flags) and all(
        word in flag if isinstance(flag, tuple) else word == flag
        for word, flag in zip(words, flags, strict=True)
    )
