"""Make sample pages of made-up people: `python -m docs.make.samples FOLDER`.

The noise is seeded, so that every build shows the same numbers. A seeded release is not private,
and its pages say so.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import privalue as pv

WARDS = [f"{ward}, {before}" for ward in "ABCDEF" for before in ("emergency", "surgery")]


def make(folder: Path) -> Iterator[Path]:
    """Release the values of twelve states, publish them, and yield the files."""
    study = pv.Study(
        name="Respiratory wards, 2026 (made-up people)",
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.95,
        returns=(0.0, 1.0),
        start={WARDS[0]: 0.7, WARDS[1]: 0.3},
        states=WARDS,
    )
    random = np.random.default_rng(5)
    often = np.where(np.isin(np.arange(len(WARDS)), [4, 9]), 1e-3, 1.0)
    people = []
    for _ in range(9000):
        length = int(random.integers(1, 6))
        states = random.choice(len(WARDS), length, replace=False, p=often / often.sum())
        well = random.random() < 0.3 + 0.5 * states[-1] / len(WARDS)
        rewards = [0.0] * (length - 1) + [float(well)]
        people.append([(WARDS[s], reward) for s, reward in zip(states, rewards, strict=True)])
    pv.publish(pv.release(study, people, seed=1), folder / "released", study=study)
    yield from (folder / "released").iterdir()


if __name__ == "__main__":
    for path in make(Path(sys.argv[1])):
        print(path)
