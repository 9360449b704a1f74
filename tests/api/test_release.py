"""A release: what it holds, what it never holds, and that it is written whole or not at all."""

import json
import math
import re
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

import privalue as pv
from oracles.refusals import refused
from oracles.studies import make_study, release_anyway, rows_of, study_file
from privalue import curator
from privalue.cli import run
from privalue.core import OperatingSystemEntropy
from privalue.estimate import theta_of
from privalue.releases import json_schema

# Easy to recognise: counts 1009, 1013 and 54, and returns that nothing public contains.
DATA = (
    [[(0, 0.1234567), (1, 0.7654321)]] * 1009
    + [[(1, 0.3141592), (2, 1.0)]] * 4
    + [[(2, 0.2718281)]] * 50
)
# The same, for what is released hundreds of times: a table is read in a fraction of the time.
HEADING = ("trajectory", "step", "state", "reward")
TABLE = pa.table(dict(zip(HEADING, zip(*rows_of(DATA), strict=True), strict=True)))
MECHANISMS = [{"name": "dp-lsw"}, {"name": "dp-lsw", "noise": "whitened"}, {"name": "dp-lsl"}]


@pytest.fixture(params=MECHANISMS, ids=lambda m: "-".join(m.values()))
def study(request):
    return make_study(3, mechanism=request.param)


def test_release_json_has_every_field_of_the_contract(study, tmp_path):
    content = json.loads(release_anyway(study, DATA).save(tmp_path).read_text())
    assert {
        "schema_version", "private", "study", "privacy", "mechanism", "theta", "tables", "accepted",
        "created", "software",
    } <= set(content)  # fmt: skip
    assert set(content["privacy"]) == {"epsilon", "delta", "unit", "neighbours", "invalid"}
    assert set(content["tables"]["values"]) == {"state", "value", "flags"}
    assert content["software"] == f"privalue {pv.__version__}"
    jsonschema.Draft202012Validator(json_schema()).validate(content)


def test_the_schema_in_the_repository_is_the_models():
    stored = json.loads((Path(__file__).parents[2] / "docs/release.schema.json").read_text())
    assert stored == json_schema()
    broken = {"schema_version": 1}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(stored).validate(broken)


def test_values_are_phi_theta_between_the_bounds_and_the_policy_value_their_mean():
    study = make_study(
        3, features={"kind": "aggregate", "size": 2}, values={"start": {"0": 0.25, "2": 0.75}}
    )
    release = release_anyway(study, DATA)
    low, high = study.values.return_bounds
    theta = np.array(release.theta)
    values = theta[[0, 0, 1]]
    assert [entry.value for entry in release.values] == np.clip(values, low, high).tolist()
    policy = 0.25 * theta[0] + 0.75 * theta[1]  # of what was drawn: clipping comes last
    assert release.policy_value == pytest.approx(min(max(policy, low), high))
    assert release_anyway(make_study(3), DATA).policy_value is None


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: "-".join(m.values()))
def test_the_noise_has_the_scale_that_the_curator_sees(mechanism):
    """Releases of one data set: mean and spread against ``inspect``; 0.85 and 1.15 are rejected."""
    study = make_study(3, mechanism=mechanism, privacy={"epsilon": 4.0})
    diagnostics = pv.inspect(study, DATA)
    sigma, theta = diagnostics.perturbation.deviations, diagnostics.theta
    source = pv.SeededForExperimentsOnly(5)
    samples = np.array([release_anyway(study, TABLE, entropy=source).theta for _ in range(400)])
    z = (samples - theta) / sigma  # features are tabular with w = 1: whitened or not, W = I
    share = float(np.mean(z**2))
    spread = 4 * math.sqrt(2 / z.size)
    assert abs(share - 1) < spread
    assert abs(share / 0.85**2 - 1) > spread
    assert abs(share / 1.15**2 - 1) > spread
    assert abs(float(z.mean())) < 6 / math.sqrt(z.size)


def test_whitened_noise_is_never_worse_and_has_the_right_covariance():
    """cov(theta) = sigma^2 (Phi^T Gamma Phi)^-1, against sigma'^2 I of isotropic noise."""
    phi = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    weights = [1.0, 2.0, 0.5]
    common = {"features": {"kind": "matrix", "matrix": phi}, "weights": {"values": weights}}
    whitened = make_study(3, mechanism={"noise": "whitened"}, **common)
    isotropic = make_study(3, mechanism={"noise": "isotropic"}, **common)
    gram = phi.T @ np.diag(weights) @ phi
    diagnostics = pv.inspect(whitened, DATA)
    narrow, wide = diagnostics.perturbation, pv.inspect(isotropic, DATA).perturbation
    covariance = narrow.deviations**2 * np.linalg.inv(gram)
    assert (
        np.linalg.eigvalsh(wide.deviations**2 * np.eye(2) - covariance).min()
        > -1e-9 * wide.deviations**2
    )
    theta = theta_of(whitened, diagnostics.mechanism, {"values": narrow.center})
    assert theta == pytest.approx(wide.center, abs=1e-9)
    source = pv.SeededForExperimentsOnly(3)
    samples = np.array([release_anyway(whitened, TABLE, entropy=source).theta for _ in range(600)])
    root = np.linalg.cholesky(np.linalg.inv(covariance))
    standard = (samples - wide.center) @ root
    assert np.cov(standard.T) == pytest.approx(np.eye(2), abs=6 * math.sqrt(2 / 600))


def test_every_number_lies_on_the_public_grid():
    release = release_anyway(make_study(3), DATA)
    steps = np.array(release.theta) / release.noise.grid
    assert np.array_equal(steps, np.round(steps))
    assert math.log2(release.noise.grid) % 1 == 0
    other = release_anyway(make_study(3), [*DATA[:-1], [(2, 0.0)]])
    assert other.noise.grid == release.noise.grid  # neighbours share it


# Nothing private in anything that a release makes


def private_numbers(study):
    """The numbers that must not leave, as they would be written: six significant digits."""
    fields = pv.inspect(study, DATA).private_columns()
    numbers = [
        *fields["counts"], *fields["mean_returns"], *fields["theta"], *fields["values"],
        fields["psi"], fields["sigma"],
    ]  # fmt: skip
    texts = {f"{number:.6g}" for number in numbers if abs(number) > 1e-9}
    public = {str(len(DATA)), "0", "1", "2"}
    return {text for text in texts - public if len(text) > 2}


def readable(text):
    """What a reader finds: without the drawing of charts, the style, and hashes."""
    return re.sub(r"(?s)<style.*?</style>|<svg.*?</svg>|<[^>]+>|[0-9a-f]{64}", " ", text)


def test_nothing_private_in_any_file_log_message_or_repr(study, tmp_path, capsys, caplog):
    mechanism = {"name": study.mechanism.name, "noise": study.mechanism.noise}
    (tmp_path / "study.toml").write_text(study_file(mechanism=mechanism))
    data_file = tmp_path / "data.csv"
    rows = [f"{t},{i},{s},{r}" for t, e in enumerate(DATA) for i, (s, r) in enumerate(e)]
    data_file.write_text("trajectory,step,state,reward\n" + "\n".join(rows) + "\n")
    out, study_path = tmp_path / "out", str(tmp_path / "study.toml")
    with caplog.at_level(0):
        command = ["release", study_path, "--data", str(data_file), "--out", str(out)]
        assert run([*command, "--no-ledger", "--accept-useless"]) == 0
    printed = capsys.readouterr()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    public = {"release.json", "report.html", "registry.yaml", "values.csv"}
    assert {path.name for path in files} == {"study.toml", "data.csv", *public}
    texts = {
        "stdout": printed.out,
        "stderr": printed.err,
        "log": caplog.text,
        **{file: readable((out / file).read_text()) for file in public},
        "repr": repr(pv.Release.load(out)),
    }
    secrets = private_numbers(study)
    assert len(secrets) >= 7
    for place, text in texts.items():
        numbers = {f"{float(number):.6g}" for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)}
        assert not (secrets & numbers), place
    # The same search finds what is planted.
    planted = texts["release.json"] + json.dumps(
        {"sigma": pv.inspect(study, DATA).perturbation.deviations}
    )
    numbers = {f"{float(number):.6g}" for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", planted)}
    assert secrets & numbers


# Float error


def test_ill_conditioned_studies_are_refused_from_public_quantities_alone():
    generator = np.random.default_rng(0)
    base = generator.normal(size=(30, 1))
    alike = np.hstack([base, base + 1e-9 * generator.normal(size=(30, 1))])
    study = make_study(30, features={"kind": "matrix", "matrix": alike})
    curator.prepare(study)  # rounding counts as noise
    alike[:, 1] = base[:, 0] + 2e-13 * generator.normal(size=30)
    study = make_study(
        30, features={"kind": "matrix", "matrix": alike}, mechanism={"noise": "whitened"}
    )
    with refused("features-ill-conditioned"):
        curator.prepare(study)


# Extremes: a study is refused, or its noise is right


EXTREMES = [
    {"weights": {"values": [1e-318] * 2}},
    {"weights": {"values": [1e-30] * 2}},
    {"weights": {"values": [1e30, 1e-30]}},
    {"weights": {"values": [8e307] * 2}},
    {"returns": (0.0, 1e-175)},
    {"returns": (0.0, 1e-30)},
    {"returns": (-1e30, 1e30)},
    {"features": {"kind": "matrix", "matrix": 2.6e-162 * np.eye(2)}},
    {"features": {"kind": "matrix", "matrix": 1e-30 * np.eye(2)}},
    {"features": {"kind": "matrix", "matrix": 1e30 * np.array([[1.0, 1.0], [1.0, -1.0]])}},
    {"features": {"kind": "matrix", "matrix": 1e155 * np.eye(2)}},
    {"features": {"kind": "matrix", "matrix": np.zeros((2, 1))}},
    {"weights": {"values": [1e-30] * 2}, "returns": (0.0, 1e-30)},
    {
        "weights": {"values": [1e30] * 2},
        "returns": (0.0, 1e30),
        "features": {"kind": "matrix", "matrix": 1e30 * np.eye(2)},
    },
]
CHOICES = [
    {"name": "dp-lsw", "noise": "isotropic"},
    {"name": "dp-lsw", "noise": "whitened", "calibration": "exact", "beta": 0.01},
    {"name": "dp-lsw", "noise": "whitened", "calibration": "exact"},
    {"name": "dp-lsl", "ridge": 1e-29},
    {"name": "dp-lsl", "ridge": 1e29},
    {"name": "dp-lsl", "calibration": "exact", "beta": 0.01, "ridge": 1e-30},
    {"name": "dp-lsl", "calibration": "exact", "ridge": 1e30},
    {"name": "dp-lsw", "calibration": "exact", "beta": 0.01, "pseudo_count": 1e15},
]


@pytest.mark.parametrize("mechanism", CHOICES, ids=lambda m: "-".join(map(str, m.values())))
@pytest.mark.parametrize("extreme", range(len(EXTREMES)))
def test_extreme_studies_are_refused_or_their_noise_is_right(extreme, mechanism):
    """Nothing may underflow on the way to sigma: the noise would vanish with it."""
    common = [[(0, 1e290), (1, 1e290)]] * 2000
    try:
        study = make_study(
            2, rewards=(-1e30, 1e30), mechanism=mechanism, privacy={"delta": 1e-3},
            **{"returns": (0.0, 1.0), **EXTREMES[extreme]},
        )  # fmt: skip
        diagnostics = pv.inspect(study, [*common, [(0, 1e290), (1, 1e290)]])
        there = pv.inspect(study, [*common, [(0, -1e290), (1, -1e290)]]).perturbation
    except pv.StudyError:
        return
    here, calibration = diagnostics.perturbation, diagnostics.mechanism.calibration
    moved = float(np.linalg.norm(here.center - there.center))
    assert moved > 0 or mechanism["name"] == "dp-lsl" or mechanism.get("pseudo_count")
    assert moved * calibration.alpha <= min(here.deviations, there.deviations) * (1 + 1e-9)
    assert abs(2 * math.log(here.deviations / there.deviations)) <= calibration.beta + 5e-9
    release_anyway(study, common, accept_large_delta=True)


def test_a_subclass_of_the_private_source_is_not_private():
    class Predictable(OperatingSystemEntropy):
        def read(self, count):
            return bytes(range(256)) * (count // 256 + 1)

    release = release_anyway(make_study(3), DATA, entropy=Predictable())
    assert not release.private
    assert "NOT PRIVATE" in repr(release)


# Tables


def spoil(change):
    """The text of a release after a change to what it holds."""
    content = json.loads(release_anyway(make_study(3), DATA).to_json())
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["tables"]["values"].pop("value"),
        lambda record: record["tables"]["values"]["value"].pop(),
        lambda record: record["tables"]["values"]["state"].__setitem__(0, None),
        lambda record: record["tables"].update(more=record["tables"]["values"]),
        lambda record: record["tables"].update(values=[]),
        lambda record: record["theta"].append("x"),
        lambda record: record.update(surprise=1),
        lambda record: record["privacy"].update(epsilon=-1),
        lambda record: record.update(schema_version=2),
    ],
)
def test_a_damaged_text_is_not_a_release(change):
    with refused("data-invalid"):
        pv.Release.parse(spoil(change))


def test_the_text_holds_any_label():
    labels = ['"', "},{", '\n  "values": []', "é", "x", "\\"]
    study = make_study(6, states={"labels": labels})
    release = release_anyway(study, [[(label, 1.0)] for label in study.names.names] * 30)
    again = pv.Release.parse(release.to_json())
    assert again == release
    assert json.loads(release.to_json())["tables"]["values"]["state"] == [
        label.strip() for label in labels
    ]
    changed = again.model_copy(update={"ridge": 7.0})
    assert json.loads(changed.to_json())["ridge"] == 7.0
    assert changed.sha256 != again.sha256
