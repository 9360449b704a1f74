"""A recommender with logged propensities: what another ranking would have earned, privately.

A shop showed each visitor one of six items, by a rule that left something to chance, and logged
with what probability it showed what it showed. Each visit is a trajectory of one row: a bandit. How
much would another rule have earned? Open Bandit style estimators answer that without privacy; one
release of dp-ope answers it with pure epsilon.

    python examples/recommender.py --out shop

Visits are made up, so that every rule's true rate of clicks is known. The estimators without
privacy are IPS (the mean of weight times click), SNIPS (divided by the mean weight), and SNIPS with
weights clipped: the last is what dp-ope releases, before its noise.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

import privalue as pv

SEGMENTS, ITEMS, CLIP = 5, 6, 20.0
VISITS = 20_000


def click_rates() -> np.ndarray:
    """How likely each segment of visitors is to click on each item."""
    return np.random.default_rng(7).uniform(0.02, 0.25, (SEGMENTS, ITEMS))


def soft(rates: np.ndarray, sharpness: float) -> np.ndarray:
    """A rule that shows better items more often; 0 shows all alike."""
    scores = np.exp(sharpness * rates)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def visits(behaviour: np.ndarray, count: int, seed: int) -> pd.DataFrame:
    """One row for each visit: segment, item, click, and the logged probability of the item."""
    generator = np.random.default_rng(seed)
    segment = generator.integers(SEGMENTS, size=count)
    draws = generator.random(count)[:, None]
    item = (draws > behaviour[segment].cumsum(axis=1)).sum(axis=1)
    item = np.minimum(item, ITEMS - 1)
    click = generator.random(count) < click_rates()[segment, item]
    return pd.DataFrame(
        {
            "trajectory": np.arange(count),
            "step": 0,
            "state": segment,
            "action": item,
            "reward": click.astype(float),
            "probability": behaviour[segment, item],
        }
    )


def study_of(target: np.ndarray) -> pv.Study:
    """What is public: segments, items, the rule to value, and that propensities are logged."""
    rule = {
        str(segment): {str(item): float(p) for item, p in enumerate(row)}
        for segment, row in enumerate(target)
    }
    return pv.Study(
        name="another ranking",
        states=SEGMENTS,
        actions=ITEMS,
        discount=1.0,
        returns=(0.0, 1.0),
        epsilon=1.0,
        unit="trajectory",
        mechanism="dp-ope",
        policy={"target": rule, "behaviour": "column", "clip": CLIP},
    )


def without_privacy(rows: pd.DataFrame, target: np.ndarray) -> dict[str, float]:
    """The usual estimators, from the same rows."""
    weights = target[rows.state, rows.action] / rows.probability
    clipped = np.minimum(weights, CLIP)
    return {
        "IPS": float((weights * rows.reward).mean()),
        "SNIPS": float((weights * rows.reward).sum() / weights.sum()),
        "clipped SNIPS": float((clipped * rows.reward).sum() / clipped.sum()),
    }


def main() -> None:
    """Value another rule, with and without privacy, and compare with the truth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("shop"))
    parser.add_argument("--quick", action="store_true", help="fewer visits")
    options = parser.parse_args()
    rates = click_rates()
    behaviour, target = soft(rates, 4.0), soft(rates, 25.0)
    rows = visits(behaviour, VISITS // 4 if options.quick else VISITS, seed=2026)
    study = study_of(target)
    release = pv.release(study, rows)
    pv.publish(release, options.out, study=study)
    print(release.sentence())
    estimates = without_privacy(rows, target)
    true = float((target * rates).sum(axis=1).mean())
    print(f"the rule's true rate of clicks   {true:.4f}")
    print(f"the rate of the rule in use      {(behaviour * rates).sum(axis=1).mean():.4f}")
    for name, value in estimates.items():
        print(f"{name + ', not private':<32} {value:.4f}")
    row = release.main.row(0)
    low, high = row.total_low, row.total_high
    print(f"released, epsilon = 1            {row.value:.4f} ({low:.4f} to {high:.4f})")
    print(f"kept mass                        {row.kept_mass:.3f}")
    result = {"true": true, "released": row.value, "low": low, "high": high, **estimates}
    (options.out / "result.json").write_text(json.dumps(result))
    print(f"Wrote {options.out / 'report.html'}")


if __name__ == "__main__":
    main()
