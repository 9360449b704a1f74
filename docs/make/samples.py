"""Make the sample pages of the site: a report, a plan and a curator's private page.

The people are made up and the noise is seeded, so that every build shows the same numbers. A seeded
release is not private, and each of its pages says so.
"""

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File

import privalue as pv
from privalue.report import write_private_page

WARDS = [
    f"Respiratory failure, ward {ward}, from {before}"
    for ward in "ABCDEF"
    for before in ("emergency", "surgery")
]


def study(labels: Sequence[str], name: str, **keywords: Any) -> pv.Study:
    """Return a study of these states, with a start in the first two."""
    return pv.Study(
        name=name,
        dataset="clinic-2026",
        epsilon=1.0,
        delta=1e-6,
        unit="trajectory",
        discount=0.95,
        rewards=(0.0, 1.0),
        returns=(0.0, 1.0),
        start={labels[0]: 0.7, labels[1]: 0.3},
        states=list(labels),
        **keywords,
    )


def people(
    labels: Sequence[str], count: int, *, rare: Sequence[int] = (), arms: Sequence[str] = ()
) -> list[list[tuple[Any, ...]]]:
    """Return made-up trajectories of one to five states; some states are hardly visited."""
    random = np.random.default_rng(5)
    often = np.ones(len(labels))
    often[list(rare)] = 1e-3
    found = []
    for _ in range(count):
        states = random.choice(
            len(labels),
            size=min(int(random.integers(1, 6)), len(labels)),
            replace=False,
            p=often / often.sum(),
        ).tolist()
        arm = int(random.integers(len(arms))) if arms else 0
        well = random.random() < 0.3 + 0.5 * states[-1] / len(labels) + 0.1 * arm
        more = (arms[arm],) if arms else ()
        rewards = [0.0] * (len(states) - 1) + [float(well)]
        found.append(
            [(labels[state], reward, *more) for state, reward in zip(states, rewards, strict=True)]
        )
    return found


_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>:root {{ color-scheme: light dark; }}
body {{ font-family: system-ui, sans-serif; margin: 2rem auto; max-width: 60rem;
padding: 0 1rem; line-height: 1.5; background: Canvas; color: CanvasText; }}
main {{ overflow-x: auto; }}</style></head>
<body><main><h1>{title}</h1><p>For a study of made-up people, before any data is opened.</p>
{body}</main></body></html>
"""


def files(config: MkDocsConfig) -> Iterator[File]:
    """Yield the sample pages as files of the site."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.PrivalueWarning)
        for name, text in sample_pages(Path(folder)).items():
            yield File.generated(config, f"samples/{name}", content=text)


def sample_pages(folder: Path) -> dict[str, str]:
    """Return the sample pages, and what they link to, by name.

    Args:
        folder: an empty folder to work in.
    """
    wards = study(WARDS, "Respiratory wards, 2026 (made-up people)")
    rows = people(WARDS, 9000, rare=(4, 9))
    pv.publish(pv.release(wards, rows, seed=1), folder / "released", study=wards)
    write_private_page(pv.inspect(wards, rows), folder / "private.html")
    made = [*(folder / "released").iterdir(), folder / "private.html"]
    return {
        **{path.name: path.read_text(encoding="utf-8") for path in made},
    }
