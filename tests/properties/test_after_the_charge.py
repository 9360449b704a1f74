"""Nothing fails after the charge, whatever the counts: every refusal comes before.

Studies at the ends of what is allowed go through everything that follows the charge, from
statistics to the text of the release, with counts that no reader ever made. A study may be refused,
by ``mechanism_for`` or by the rehearsal: neither has seen statistics. Floating-point errors are
errors here, as after ``numpy.seterr(all="raise")``.
"""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import privalue as pv
from oracles.studies import PROMISE, in_sections, mechanism_for
from privalue.core import GRID_STEPS, MAX_TRAJECTORIES, PublicSize, Ssp, Statistics
from privalue.curator import draw_release, prepare, rehearse
from privalue.estimate import estimate, values

TRIED = 1000 if os.environ.get("PRIVALUE_LONG") == "1" else 120
BOUNDS = [
    (0.0, 1.0),
    (-1.0, 2.5),
    (3.0, 3.5),
    (-1e30, 1e30),
    (0.0, 1e-30),
    (-1e-30, 0.0),
    (9.99999e29, 1e30),
    (-7e8, -6.9999999e8),
]
SIZES = [1e-30, 1e-9, 0.3, 1.0, 40.0, 1e9, 1e30]
RIDGES = [1e-30, 1e-13, 1e-3, 1.0, 500.0, 1e12, 1e30]
MANY = [1, 2, 500, 501, 10**6, MAX_TRAJECTORIES]


@st.composite
def matrices(draw, states):
    """Features that overlap or not, alike or not, of ordinary sizes or at the ends."""
    columns = draw(st.integers(1, states))
    ordinary = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0])
    entry = ordinary if draw(st.booleans()) else st.sampled_from([0.0, *SIZES, -1e30, -1e-30])
    rows = st.lists(entry, min_size=columns, max_size=columns)
    matrix = np.array(draw(st.lists(rows, min_size=states, max_size=states)))
    if draw(st.booleans()):  # nobody has two features
        keep = np.arange(columns) == draw(st.integers(0, columns - 1))
        matrix = np.where(keep | (matrix.any(axis=1, keepdims=True) & False), matrix, 0.0)
    return matrix


@st.composite
def mechanisms(draw):
    name = draw(st.sampled_from(["dp-ssp", "dp-lsw", "dp-lsl"]))
    keys = {"name": name}
    if name == "dp-ssp":
        keys |= draw(
            st.sampled_from(
                [
                    {},
                    {"shrinkage": False},
                    {"ridge_scale": draw(st.sampled_from([1e-20, 1.0, 1e20]))},
                    *({"ridge": ridge} for ridge in RIDGES),
                ]
            )
        )
        return keys
    keys["calibration"] = draw(st.sampled_from(["nissim", "appendix", "exact"]))
    if keys["calibration"] == "exact":
        keys["beta"] = draw(st.sampled_from([1e-9, 1e-5, 1e-3]))
    if name == "dp-lsl":
        keys["ridge"] = draw(st.sampled_from(RIDGES))
    else:
        keys["noise"] = draw(st.sampled_from(["whitened", "isotropic"]))
        if keys["calibration"] == "exact":
            keys["pseudo_count"] = draw(st.sampled_from([0.0, 0.5, 1e15]))
    return keys


@st.composite
def studies(draw):
    states = draw(st.sampled_from([1, 2, 5, 9]))
    by_person = draw(st.booleans())
    privacy = {
        "epsilon": draw(st.sampled_from([1e-3, 0.1, 1.0, 20.0])),
        "delta": draw(st.sampled_from([1e-15, 1e-6, 0.1, 0.5])),
        "unit": "person" if by_person else "trajectory",
        "neighbours": draw(st.sampled_from(["replace-one", "add-remove"])),
    }
    if by_person:
        privacy["max_trajectories_per_person"] = draw(st.sampled_from([1, 3, 10**6]))
    if draw(st.booleans()):
        privacy["max_states_per_trajectory"] = draw(st.integers(1, states))
    kind = draw(st.sampled_from(["tabular", "aggregate", "matrix"]))
    features = {"kind": kind}
    if kind == "aggregate":
        features["size"] = draw(st.integers(1, states))
    elif kind == "matrix":
        matrix = draw(matrices(states))
        features["matrix"] = sp.csr_array(matrix) if draw(st.booleans()) else matrix
    weight = st.sampled_from([0.0, *SIZES])
    values = {"discount": 0.9, "rewards": (0.0, 1.0), "returns": draw(st.sampled_from(BOUNDS))}
    if draw(st.booleans()):
        values["start"] = {str(s): 1 / states for s in range(states)}
    places = {"count": states}
    if draw(st.booleans()):
        chance = st.sampled_from([0.0, 1e-12, 0.2, 1.0])
        places["visits"] = {str(s): draw(chance) for s in range(states)}
    mechanism = draw(mechanisms())
    keys = {}
    if mechanism["name"] == "dp-ssp":
        keys["report"] = {"level": draw(st.sampled_from([1e-9, 0.95, 1 - 1e-11]))}
    if draw(st.booleans()):
        keys["weights"] = {"values": [draw(weight) for _ in range(states)]}
    try:
        return in_sections(
            study={"trajectories": draw(st.sampled_from(MANY))},
            privacy=privacy,
            values=values,
            states=places,
            features=features,
            mechanism=mechanism,
            **keys,
        )
    except pv.StudyError:
        assume(False)


def made_up(study, draw):
    """Sizes, and statistics that fit them and nothing else."""
    m = study.study.trajectories
    add_remove = study.privacy.neighbours == "add-remove"
    by_person = study.privacy.unit == "person"
    units = None if add_remove else m
    most = MAX_TRAJECTORIES if add_remove else m * study.limits.max_trajectories_per_person
    most = min(most, MAX_TRAJECTORIES)
    trajectories = min(m, most)
    count = st.sampled_from([0, 1, trajectories // 2, max(trajectories - 1, 0), trajectories])
    counts = np.array([draw(count) for _ in range(study.names.count)], dtype=np.int64)
    if draw(st.booleans()):
        counts[:] = counts[0]
    share = st.sampled_from([0, 1, GRID_STEPS // 2, GRID_STEPS - 1, GRID_STEPS])
    steps = counts * np.array([draw(share) for _ in counts], dtype=np.int64)
    statistics = Statistics(
        limits=study.limits,
        trajectories=trajectories,
        rows=int(counts.sum()),
        counts=counts,
        return_steps=steps,
        persons=trajectories if by_person else 0,
    )
    return PublicSize(units=units, most_count=most, trajectories=m), statistics


def everything_after(study, size, mechanism, statistics, seed):
    """What follows the charge, up to the text that is committed."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        release = draw_release(study, mechanism, statistics, (), pv.SeededForExperimentsOnly(seed))
        text = release.to_json()
    assert pv.Release.parse(text) == release
    return release


def require_sound(study, release):
    """Finite, between the bounds, and no interval upside down."""
    low, high = study.values.return_bounds
    assert release.theta is None or np.isfinite(release.theta).all()
    for entry in release.values:
        assert low <= entry.value <= high
        if hasattr(entry, "low"):
            assert low <= entry.low <= entry.value <= entry.high <= high
    if release.policy is not None and "low" in release.policy.columns:
        interval = release.policy.row(0)
        assert low <= interval.low <= release.policy_value <= interval.high <= high


@settings(max_examples=TRIED)
@given(study=studies(), data=st.data())
def test_after_the_charge_nothing_fails(study, data):
    size, statistics = made_up(study, data.draw)
    try:
        design = prepare(study).design
        mechanism = mechanism_for(study, design, size)
        rehearse(mechanism, study)
    except pv.StudyError:
        return
    release = everything_after(study, size, mechanism, statistics, seed=1)
    require_sound(study, release)


@settings(max_examples=TRIED)
@given(study=studies(), data=st.data())
def test_no_possible_draw_fails(study, data):
    """Counts below 0, all equal, none; sums as large as can be."""
    size, _ = made_up(study, data.draw)
    try:
        mechanism = mechanism_for(study, prepare(study).design, size)
        rehearse(mechanism, study)
    except pv.StudyError:
        return
    low, high = study.values.return_bounds
    if isinstance(mechanism, Ssp):
        far = 64 * mechanism.noise.deviations
        most = np.repeat([GRID_STEPS / 2, 1.0], study.names.count) * size.most_count
        ends = np.array([-far, 0 * far, 1e-9 * far, far, most, -most, most + far, -most - far])
    else:
        ends = np.outer([-1, -0.01, 0, 1e-9, 0.01, 0.5, 1], mechanism.largest_draw()["values"])
    choice = st.integers(0, len(ends) - 1)
    if data.draw(st.booleans()):
        noisy = ends[data.draw(choice)]
    else:
        noisy = np.array([ends[data.draw(choice), i] for i in range(ends.shape[1])])
    with np.errstate(all="ignore"):
        parts = estimate(study, mechanism, {"values": noisy})
    table = parts["tables"]["values"]  # whose numbers are finite, or it would not have been made
    assert parts["theta"] is None or np.isfinite(parts["theta"]).all()
    assert ((low <= table.value) & (table.value <= high)).all()
    if "low" in table.columns:
        assert (table.low <= table.value).all()
        assert (table.value <= table.high).all()


RELEASE = """
import sys
import numpy as np
import scipy.sparse as sp
from numba.core.dispatcher import Dispatcher
import privalue as pv
from privalue import curator
from privalue.ledger import Ledger

charge, compile, before, late = Ledger.charge, Dispatcher.compile, set(), []

def charged(self, request, *, token):
    before.update(sys.modules)
    return charge(self, request, token=token)

def watched(self, signature):
    if before:
        late.append(self.py_func.__name__)
    return compile(self, signature)

Ledger.charge, Dispatcher.compile = charged, watched
if sys.argv[2] == "unprepared":
    curator.core.mechanisms.compile_draw = lambda: None
study = pv.Study(
    states=6, discount=0.9, epsilon=1.0, delta=1e-6, unit="trajectory", dataset="people",
    trajectories=3000,
    **eval(sys.argv[1]),
)
pv.open_ledger("ledger.db").declare("people", epsilon=9, delta=0.1, unit="trajectory")
rows = [[(t % 6, 0.0), ((t + 1) % 6, 1.0)] for t in range(3000)]
pv.release(study, rows, ledger="ledger.db", outbox="outbox", accept_useless=True)
late += set(sys.modules) - before
print(late)
"""
SPARSE = "'features': sp.csr_array(np.kron(np.eye(3), np.ones((2, 1))) + 0.1)"


def compiled_late(folder, keywords, preparation="prepared"):
    process = subprocess.run(
        [sys.executable, "-c", RELEASE, keywords, preparation],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.strip()


@pytest.mark.parametrize(
    "keywords",
    [
        "{'returns': (0, 1)}",
        pytest.param("{'rewards': (0, 1)}", marks=pytest.mark.long),
        pytest.param(f"{{'returns': (0, 1), {SPARSE}}}", marks=pytest.mark.long),
        f"{{'returns': (0, 1), {SPARSE}, 'mechanism': 'dp-lsl'}}",
        pytest.param(
            f"{{'returns': (0, 1), {SPARSE}, 'mechanism': 'dp-lsw'}}", marks=pytest.mark.long
        ),
        # m is private: nothing but the draw computes psi
        "{'returns': (0, 1), 'mechanism': 'dp-lsl', 'calibration': 'nissim', 'ridge': 1e9,"
        " 'neighbours': 'add-remove'}",
    ],
    ids=["dp-ssp", "two stages", "sparse features", "dp-lsl", "dp-lsw", "dp-lsl, add-remove"],
)
def test_nothing_is_compiled_or_imported_after_the_charge(tmp_path, keywords):
    """In a process of its own, in which nothing is compiled yet."""
    assert compiled_late(tmp_path, keywords) == "[]"


def test_a_late_compilation_is_found(tmp_path):
    assert compiled_late(tmp_path, "{'returns': (0, 1)}", "unprepared") == "['fill']"


def test_every_stage_of_a_tabular_study_is_rehearsed(monkeypatch):
    study = pv.Study(states=2, rewards=(0, 1), discount=0.9, trajectories=1000, **PROMISE)
    mechanism = prepare(study).mechanism
    assert list(mechanism.stages) == ["bounds", "values"]
    rehearse(mechanism, study)

    def fail(_, draw, level):
        assert list(draw) == ["bounds", "values"]
        raise OverflowError

    monkeypatch.setattr(values, "stage_parts", fail)
    with pytest.raises(pv.StudyError):
        rehearse(mechanism, study)
