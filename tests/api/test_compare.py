"""Comparisons of releases: by name, with the truth or without, and what does not fit is told."""

import numpy as np
import pandas as pd
import pytest

import privalue as pv
from api.conftest import LABELS, seeded

TRUTH = [0.8, 0.9, 1.0, 0.25]


@pytest.mark.parametrize(
    "truth",
    [
        TRUTH,
        np.array(TRUTH),
        dict(zip(LABELS, TRUTH, strict=True)),
        pd.Series(TRUTH),
        pd.Series(TRUTH[::-1], index=LABELS[::-1]),
    ],
    ids=["list", "array", "dict", "series", "series by label"],
)
def test_the_truth_comes_in_any_form(release, other, truth):
    compared = pv.compare([release, other], truth=truth)
    assert compared.truth.tolist() == TRUTH
    for name, each in zip(("dp-ssp", "dp-lsw"), (release, other), strict=True):
        errors = [(entry.value - true) ** 2 for entry, true in zip(each, TRUTH, strict=True)]
        assert compared.rmse[name] == pytest.approx((sum(errors) / 4) ** 0.5)
    held = [
        entry.total_low <= true <= entry.total_high
        for entry, true in zip(release, TRUTH, strict=True)
    ]
    assert compared.covered == {"dp-ssp": sum(held) / 4}


def test_a_table_has_every_release_and_their_flags(release, other):
    found = pv.compare({"ours": release, "theirs": other}, truth=TRUTH).to_pandas()
    assert found["release"].tolist() == ["ours"] * 4 + ["theirs"] * 4
    assert found["truth"].tolist() == TRUTH * 2
    assert found["flags"][3] == "NOT PRIVATE; too few visits"
    assert found["flags"].str.startswith("NOT PRIVATE").all()
    assert found["value"].tolist() == [*release.value, *other.value]
    assert found["total_low"].isna().tolist() == [False] * 4 + [True] * 4


def test_experiments_are_told_from_releases(release, private_release):
    compared = pv.compare({"try": release, "real": private_release})
    assert repr(compared) == "Comparison(try (NOT PRIVATE), real)"
    assert "try (NOT PRIVATE)" in compared._repr_html_()
    assert "real (NOT PRIVATE)" not in compared._repr_html_()


def test_releases_are_told_apart(release, study):
    wider = study.model_copy(
        update={"privacy": {**study.privacy.model_dump(exclude_none=True), "epsilon": 2.0}}
    )
    two = seeded(wider)
    assert pv.compare([release, two]).names == ("dp-ssp, epsilon 1", "dp-ssp, epsilon 2")
    assert pv.compare([release, release]).names == ("dp-ssp, epsilon 1", "dp-ssp, epsilon 1 (2)")
    assert pv.compare(release, truth=TRUTH).names == ("dp-ssp",)


def test_arms_have_a_truth_each(armed):
    truth = {(entry.arm, entry.state): 0.5 for entry in armed}
    assert pv.compare(armed, truth=truth).truth.tolist() == [0.5] * 8
    with pytest.raises(pv.UsageError, match=r"no value for \('control', 'ill'\)"):
        pv.compare(armed, truth=dict.fromkeys(LABELS, 0.5))


def test_what_does_not_fit_is_told(release, armed, study):
    with pytest.raises(pv.UsageError, match="not of the same states and arms"):
        pv.compare([release, armed])
    with pytest.raises(pv.UsageError, match="releases is empty"):
        pv.compare([])
    with pytest.raises(pv.UsageError, match="holds a Study"):
        pv.compare([study])
    with pytest.raises(pv.UsageError, match=r"shape \(2,\); give 4 finite numbers"):
        pv.compare([release], truth=[1.0, 2.0])
    with pytest.raises(pv.UsageError, match="no value for 'rare <b>'"):
        pv.compare([release], truth={"ill": 1, "better": 1, "well": 1})
    with pytest.raises(pv.UsageError, match="holds no numbers"):
        pv.compare([release], truth=["a", "b", "c", "d"])
    with pytest.raises(pv.UsageError, match="errors need the true values"):
        pv.compare([release]).rmse  # noqa: B018
