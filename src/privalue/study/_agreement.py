"""Refuse sections of a study that do not go together.

Each section checks its own keys. What one of them needs of another, or makes idle, is checked here,
before any file is read. Arms are checked after that: a file may say how many states there are.
"""

from typing import TYPE_CHECKING

from privalue.errors import StudyError
from privalue.study._sections import MOST_STATES, Features, Weights

if TYPE_CHECKING:
    from privalue.study._study import Study


def require_agreement(study: "Study") -> None:
    """Raise StudyError for the first section that does not go with another.

    Args:
        study: its sections are checked, each by itself; its files are not read yet.
    """
    _require_intervals_for_level(study)
    _require_limit_of_trajectories(study)
    _require_shrinkage_for_features(study)
    _require_column_of_cuts(study)
    _require_columns_of_bins(study)
    _require_actions(study)
    _require_policy(study)
    _require_delta(study)


def require_arms(study: "Study") -> None:
    """Refuse arms for which no mechanism is proved, or that no row could hold."""
    if not study.arms.labels:
        return
    if study.mechanism.name in {"dp-lsw", "dp-lsl"}:
        raise StudyError(
            f'[arms] needs dp-ssp, and [mechanism] name = "{study.mechanism.name}": its noise '
            "follows the visits, and no bound is proved for a unit that moves from one arm to "
            'another; use "dp-ssp", or one release for each arm'
        )
    data = study.data
    taken = {data.trajectory, data.step, data.state, data.reward, data.person, data.truncated}
    if study.arms.column in taken:
        raise StudyError(
            f'[arms] column = "{study.arms.column}" is a column of [data], too; give it another'
        )
    if study.key_count > MOST_STATES:
        raise StudyError(
            f"[arms] {study.arm_count} arms of {study.state_count} states are {study.key_count} "
            f"values; there may be at most {MOST_STATES}"
        )


def _require_intervals_for_level(study: "Study") -> None:
    """Refuse a level if the release will have no intervals."""
    if "level" in study.report.given and not study.has_intervals:
        raise StudyError(
            "[report] level is of intervals, which dp-lsw and dp-lsl do not release; use dp-ssp, "
            "or remove level"
        )


def _require_limit_of_trajectories(study: "Study") -> None:
    """Require L if a person may have several trajectories, and refuse it if not."""
    limit, one = study.privacy.max_trajectories_per_person, study.data.one_trajectory_per_person
    if study.privacy.unit != "person":
        return
    if limit is None and not one:
        raise StudyError(
            '[privacy] unit = "person" needs the key max_trajectories_per_person: how many '
            "trajectories of one person count at most, e.g. max_trajectories_per_person = 3; "
            "if each person has one trajectory, name their column alone: [data] person = "
            f'"{study.data.person}"'
        )
    if one and limit not in {None, 1}:
        raise StudyError(
            f"[privacy] max_trajectories_per_person = {limit}: [data] names person and not "
            "trajectory, so that each person has one trajectory; name that column too, e.g. "
            'trajectory = "trajectory", or remove max_trajectories_per_person'
        )


def _require_shrinkage_for_features(study: "Study") -> None:
    """Refuse to shrink towards features what is not shrunk."""
    chosen = study.mechanism
    if not study.features.shrink:
        return
    if chosen.name != "dp-ssp":
        raise StudyError(
            f'[features] shrink = true needs dp-ssp, and [mechanism] name = "{chosen.name}"; '
            "choose dp-ssp, or remove shrink"
        )
    if not chosen.shrinkage or chosen.given & {"ridge", "ridge_scale"}:
        key = "ridge" if chosen.shrinkage else "shrinkage = false"
        raise StudyError(
            f"[features] shrink = true is shrinkage towards the features, and [mechanism] "
            f"{key} asks for something else; remove one of the two"
        )


def _require_column_of_cuts(study: "Study") -> None:
    """Refuse a rule for trajectories that were cut off where no column marks them."""
    if study.values.truncated is not None and study.data.truncated is None:
        raise StudyError(
            f'[values] truncated = "{study.values.truncated}" needs the column that marks '
            'trajectories as cut off: [data] truncated = "cut", or whatever it is called'
        )


def _require_columns_of_bins(study: "Study") -> None:
    """Refuse bins of a column that is something else, too, and a column of states beside."""
    if study.states.bins is None:
        return
    if "state" in study.data.given:
        raise StudyError(
            f'[data] state = "{study.data.state}" names a column of states, and [states] bins '
            "makes states of others; remove one of the two"
        )
    data = study.data
    taken = {data.trajectory, data.step, data.reward, data.person, data.truncated}
    taken |= {study.arms.column} if study.arms.labels else set()
    taken |= {data.action} if study.actions.named else set()
    taken |= {data.probability} if study.policy.is_logged else set()
    for column in study.states.bins:
        if column in taken:
            raise StudyError(
                f"[states] bins {column} is a column of [data] or [arms], too; give a copy of "
                "it another name"
            )


def _require_actions(study: "Study") -> None:
    """Refuse actions for which nothing is proved, and a column of actions without any."""
    data = study.data
    if not study.actions.named:
        if "action" in data.given:
            raise StudyError(
                f'[data] action = "{data.action}" names the column of actions, and there are '
                "none; say which there are, e.g. [actions] count = 4, or remove it"
            )
        return
    if study.arms.labels:
        raise StudyError(
            "[actions] and [arms] do not go together; remove one of the two, or make one "
            "release for each arm"
        )
    if study.mechanism.name in {"dp-lsw", "dp-lsl"}:
        raise StudyError(
            f'[actions] needs dp-ssp, and [mechanism] name = "{study.mechanism.name}": no bound '
            'is proved for values of states and actions there; use "dp-ssp"'
        )
    taken = {data.trajectory, data.step, data.state, data.reward, data.person, data.truncated}
    if data.action in taken:
        raise StudyError(
            f'[data] action = "{data.action}" is another column of [data], too; each needs its own'
        )


def _require_policy(study: "Study") -> None:
    """Require what dp-ope needs, and refuse what has no effect with it, or without it."""
    policy, data = study.policy, study.data
    if study.mechanism.name != "dp-ope":
        if policy.given:
            raise StudyError(
                f'[policy] is for dp-ope, and [mechanism] name = "{study.mechanism.name}"; set '
                'name = "dp-ope", or remove [policy]'
            )
        return
    if not study.actions.named:
        raise StudyError(
            "[actions] is missing: to value another policy, actions must be recorded; say "
            "which there are, e.g. [actions] count = 4"
        )
    needed = {
        "target": "the policy to value, a file of state, action and probability",
        "behaviour": 'the policy behind the data: a file, or "column"; it is never estimated '
        "silently",
        "clip": "the most that a trajectory weighs, e.g. clip = 10",
    }
    for name, meaning in needed.items():
        if getattr(policy, name) is None:
            raise StudyError(f"[policy] {name} is missing: {meaning}")
    idle = {
        "[privacy] max_states_per_trajectory": study.privacy.max_states_per_trajectory,
        "[values] start": study.values.start,
        "[values] unvisited": study.values.unvisited,
        "[states] visits": study.states.visits,
        "[weights]": study.weights.model_dump() != Weights().model_dump() or None,
        "[features]": study.features.model_dump() != Features().model_dump() or None,
    }
    for name, given in idle.items():
        if given is not None:
            raise StudyError(f"{name} has no effect with dp-ope; remove it")
    if policy.is_logged:
        taken = {data.trajectory, data.step, data.state, data.reward, data.person, data.action}
        if data.probability in taken:
            raise StudyError(
                f'[data] probability = "{data.probability}" is another column of [data], too; '
                "each needs its own"
            )
    elif "probability" in data.given:
        raise StudyError(
            f'[data] probability = "{data.probability}" names the column of logged '
            'probabilities, and [policy] behaviour is not "column"; remove one of the two'
        )


def _require_delta(study: "Study") -> None:
    """Require a delta above 0, but for dp-ope, whose Laplace noise needs none."""
    wanted = "a number between 0 and 1, both excluded"
    delta = study.privacy.delta
    if study.values_a_policy:
        if delta > 0:
            raise StudyError(
                f"[privacy] delta = {delta:g}: the Laplace noise of dp-ope promises epsilon alone; "
                "remove delta"
            )
    elif "delta" not in study.privacy.given:
        raise StudyError(f"[privacy] delta is missing; it must be {wanted}")
    elif delta == 0:
        raise StudyError(f"[privacy] delta = {delta} is not allowed; it must be {wanted}")
