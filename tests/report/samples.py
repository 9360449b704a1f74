"""Releases of every kind, small enough to read; seeded, so that they are always the same."""

import random
from functools import cache

import privalue as pv

WARDS = ["admission", "ward", "rehabilitation", "home"]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "=1+1;=2",
    "\u202eback to front",
    "\x1b[2Jclear",
    "</style><b>&amp;",
    "x" * 300,
]


def stays(count, *, arm="", gain=0.0, seed=1, labels=WARDS):
    """So many stays: from the first state to the last, some of them past a state."""
    random_numbers, rows = random.Random(seed), []
    last = len(labels) - 1
    for number in range(count):
        at = step = 0
        while True:
            treated = random_numbers.random() < 0.4
            reward = random_numbers.random() * ((0.5 + gain) if at == last else 0.1)
            rows.append(
                {
                    "trajectory": f"{arm}{number}",
                    "step": step,
                    "state": labels[at],
                    "reward": reward,
                    "arm": arm,
                    "action": "treat" if treated else "wait",
                    "probability": 0.4 if treated else 0.6,
                }
            )
            if at == last:
                break
            at, step = min(last, at + (1 if random_numbers.random() < 0.8 else 2)), step + 1
    return rows


def make_study(**keys):
    keywords = {
        "name": "recovery",
        "states": WARDS,
        "discount": 0.95,
        "rewards": (0, 1),
        "returns": (0, 1),
        "epsilon": 1.0,
        "delta": 1e-6,
        "unit": "trajectory",
    }
    keywords |= keys
    return pv.Study(**{key: value for key, value in keywords.items() if value is not None})


def release_seeded(study, rows, seed=11, **how):
    entropy = pv.SeededForExperimentsOnly(seed)
    return pv.release(study, rows, entropy=entropy, accept_useless=True, **how)


def arms_study(**keys):
    labels = ["control", "treated"]
    usual = {"discount": 1.0, "returns": (0, 2)}
    return make_study(name="trial", arms=labels, start={"admission": 1.0}, **{**usual, **keys})


def off_policy_study(**policy):
    target = {ward: {"treat": 0.6, "wait": 0.4} for ward in WARDS}
    return make_study(
        name="another",
        discount=1.0,
        returns=(0, 2),
        delta=None,
        actions=["wait", "treat"],
        mechanism="dp-ope",
        policy={"target": target, "behaviour": "column", "clip": 10.0, **policy},
    )


STUDIES = {
    "states": lambda: make_study(start=dict.fromkeys(WARDS, 0.25)),
    "arms": arms_study,
    "actions": lambda: make_study(
        name="choices", returns=(0, 1.5), actions=["wait", "treat"], start={"admission": 1.0}
    ),
    "off-policy": off_policy_study,
    "by-start": lambda: off_policy_study(by="start"),
    "no-intervals": lambda: make_study(mechanism="dp-lsw"),
    "restricted": lambda: arms_study(
        discount=0.999, returns=None, outcome="days at home", outcome_unit="days"
    ),
}


def rows_of(kind):
    if kind in {"arms", "restricted"}:
        return stays(4000, arm="control") + stays(4000, arm="treated", gain=0.4, seed=2)
    return stays(8000 if kind in {"actions", "off-policy", "by-start"} else 5000)


@cache
def release(kind):
    return release_seeded(STUDIES[kind](), rows_of(kind))


@cache
def hostile():
    """A release whose every name is hostile."""
    study = make_study(
        name="</title><script>alert('name')</script>\x1b[2J",
        dataset="trial",
        states=HOSTILE,
        arms=["<b>old", "=new"],
        start={HOSTILE[0]: 1.0},
    )
    rows = stays(3000, arm="<b>old", labels=HOSTILE)
    return release_seeded(study, rows + stays(3000, arm="=new", seed=3, labels=HOSTILE))


@cache
def hostile_actions():
    """The same of a release of values of actions, the second of which is better."""
    names = ["<b>wait", "=treat"]
    study = make_study(states=HOSTILE, actions=names, discount=1.0)
    stays = [[(label, names[at % 2], 0.1 * (at % 2)) for label in HOSTILE] for at in range(4000)]
    return release_seeded(study, stays)
