"""Guess which column is which from their names alone: no row is looked at.

A name is split into words, whatever its case and separators: ``StayID`` and ``stay-id`` are stay
and id. A match of the whole name (``t``, ``obs``) counts more than a match of its last meaningful
word (``visit_date`` is a date, ``patient number`` a patient). Where several columns match a role
equally well, or none does, the role stays a question for the author of the study.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

QUESTION = "?"  # written in a study file in place of an answer
ROLES = ("person", "trajectory", "step", "state", "reward")

_WORDS: Mapping[str, str] = {
    "person": "person patient pat subject user customer client member participant individual "
    "pupil student mrn pid "
    "patienten patientin proband probanden teilnehmer kunde kunden versicherte versicherter "
    "patiente individu sujet personne paciente persona sujeto participante",
    "trajectory": "trajectory traj episode ep stay icustay hadm admission encounter session spell "
    "rollout run sequence",
    "step": "step timestep t time day date datum datetime timestamp charttime visit bloc hour week "
    "month when seq turn",
    "state": "state s obs observation status condition stage ward unit",
    "reward": "reward rew r score outcome payoff",
}
_ROLE_OF = {word: role for role, words in _WORDS.items() for word in words.split()}
_OF_TIME: Mapping[str, str | None] = {  # the type of steps with such a name; None: unknown
    "date": "date",
    "datum": "date",
    "datetime": "datetime",
    "timestamp": "datetime",
    "charttime": "datetime",
    "time": None,
    "when": None,
}
_SAY_NOTHING = {"id", "ids", "nr", "no", "num", "number", "key", "code", "name", "label"}
_SAY_NOTHING |= {"nummer", "numéro", "numero", "número"}

_ASKED: Mapping[str, str] = {
    "person": "which column identifies persons",
    "trajectory": "which column identifies trajectories (stays, episodes)",
    "step": "which column orders the rows of a trajectory",
    "state": "which column holds the state",
    "reward": "which column holds the reward",
}
_PROTOCOL = "from your protocol, never from the data"
_ALWAYS_ASKED: Mapping[tuple[str, str], str] = {
    ("states", "count"): f"which states are there ({_PROTOCOL})? their number, or labels = [...]",
    ("values", "rewards"): f"between which bounds are rewards ({_PROTOCOL})? [low, high]",
    ("values", "returns"): "between which bounds are discounted sums of rewards? [low, high], or "
    "remove the line; what lies outside is clamped, and noise grows with the range",
}
_WHOM = (
    'whom does the promise protect? "trajectory": each stay by itself; "person": everybody with '
    "all of their stays (then [data] person names the column that identifies people)"
)


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """The result of guessing: TOML values for keys, and the questions that are left."""

    columns: Mapping[str, str]  # role: name
    values: Mapping[tuple[str, str], str]
    questions: Mapping[tuple[str, str], str]
    hints: Mapping[tuple[str, str], str]  # questions that need no answer
    unread: Sequence[str]

    def as_dict(self) -> dict[str, object]:
        """Return what ``init --data --json`` prints beside the name of the study."""
        return {
            "columns": dict(self.columns),
            "questions": {key_name(about): asked for about, asked in self.questions.items()},
            "hints": {key_name(about): asked for about, asked in self.hints.items()},
        }


def guess(names: Sequence[str], encoding: str | None = None) -> Guesses:
    """Return which of the columns hold what.

    Args:
        names: of all columns, in order.
        encoding: in which a heading that is not UTF-8 was read.

    >>> guess(["patient_id", "visit_date", "ward", "score"]).columns
    {'person': 'patient_id', 'step': 'visit_date', 'state': 'ward', 'reward': 'score'}
    """
    known = {role: _best_known(names, role) for role in ROLES}
    columns = {role: best[0] for role, best in known.items() if len(best) == 1}
    steps = known["step"] if len(known["step"]) > 1 else []  # a visit may be one, or have many
    questions = dict(_ALWAYS_ASKED)
    for role, best in known.items():
        # A column of persons is optional; where there is one, each may have a single trajectory.
        spare = role == "person" or (role == "trajectory" and known["person"])
        if role not in columns and (best or not spare):
            also = steps if role == "trajectory" else []
            among = best or [name for name in names if _known_for(name) is None or name in also]
            questions["data", role] = (
                f"{_ASKED[role]}? {join_columns(among) or 'none is left for it'}"
            )
    values = {("data", role): _toml(name) for role, name in columns.items()}
    if known["person"]:
        values["privacy", "unit"] = '"person"'
        if known["trajectory"]:
            questions["privacy", "max_trajectories_per_person"] = (
                f"how many trajectories of one person count at most ({_PROTOCOL})?"
            )
    else:
        questions["privacy", "unit"] = _WHOM
    hints = {}
    if encoding is not None:
        values["data", "encoding"] = _toml(encoding)
        hints["data", "encoding"] = (
            f"the heading is not UTF-8, and was read as {encoding}; is that what the file is "
            "written in? if names look wrong, name another encoding"
        )
    step = columns.get("step", "")
    of_time = [_OF_TIME[word] for word in _words(step) if word in _OF_TIME]
    if of_time:
        hints["data", "step_type"] = (
            f'is {join_columns([step])} a date or a time? then step_type = "date" or "datetime"'
        )
        if of_time[-1] is not None:
            values["data", "step_type"] = _toml(of_time[-1])
            hints["data", "step_type"] = (
                f'{join_columns([step])} is taken as a {of_time[-1]}; set it to "datetime" if it '
                'has a time of day, or to "integer" if it is a number'
            )
    if known["person"] and not known["trajectory"]:
        hints["data", "trajectory"] = (
            "left out, all rows of a person are one trajectory; if a person has several, name the "
            "column that identifies them"
        )
    values |= dict.fromkeys(questions, _toml(QUESTION))
    unread = [name for name in names if name not in columns.values()]
    return Guesses(columns=columns, values=values, questions=questions, hints=hints, unread=unread)


def key_name(about: tuple[str, str]) -> str:
    """Return a key with its section, as messages name it."""
    return f"[{about[0]}] {about[1]}"


def _best_known(names: Sequence[str], role: str) -> list[str]:
    """Return the columns that match a role best."""
    known = [(name, *(_known_for(name) or ("", 0))) for name in names]
    best = min((how for _, its_role, how in known if its_role == role), default=0)
    return [name for name, its_role, how in known if (its_role, how) == (role, best)]


def _known_for(name: str) -> tuple[str, int] | None:
    """Return the role that a name matches, and how well: a smaller number is a better match."""
    words = _words(name)
    telling = [word for word in words if word not in _SAY_NOTHING]
    if not telling:
        return ("trajectory", 3) if words else None  # an id that does not say of what
    whole = "".join(words)
    if whole in ROLES:
        return whole, 0
    if words[-1] in {"id", "nr"} and telling[-1] == "visit":
        return "trajectory", 1  # an id of visits, not their number in order
    for how, word in ((1, whole), (1, "".join(telling)), (2, telling[-1])):
        if word in _ROLE_OF and (how == 1 or len(word) > 2):
            return _ROLE_OF[word], how
    return None


def _words(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = re.findall(r"[^\W\d_]+|\d+", parted.lower())
    if len(words) == 1:  # patientid, subjectnr
        found = re.fullmatch(rf"(\w{{3,}})({'|'.join(_SAY_NOTHING)})", words[0])
        if found is not None and found[1] in _ROLE_OF:
            return [found[1], found[2]]
    return words


def join_columns(names: Sequence[str], most: int = 12) -> str:
    """Return names in one line; of very many, the first ones."""
    rest = f", and {len(names) - most} more" if len(names) > most else ""
    shown = ("".join(c if c.isprintable() else " " for c in name) for name in names[:most])
    return ", ".join(shown) + rest


def _toml(text: str) -> str:
    """Return a text as TOML writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\u{ord(c[0]):04x}", escaped) + '"'
