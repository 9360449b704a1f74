"""``python -m benchmarks.pictures``: makes the pictures of the documentation anew."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from privalue.core._calibration import appendix, exact, nissim
from privalue.core._profile import privacy_profile

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
EPSILON, DELTA, STATES = 0.1, 0.1, 40  # the paper's setting


def privacy_profiles() -> None:
    """delta against epsilon for three pairs of constants that all promise (0.1, 0.1)."""
    pairs = {
        "appendix": appendix(EPSILON, DELTA, STATES),
        "nissim (Lemma 1)": nissim(EPSILON, DELTA, STATES),
        "exact, the paper's beta": exact(
            EPSILON, DELTA, STATES, nissim(EPSILON, DELTA, STATES).beta
        ),
        "exact, beta = 0.05": exact(EPSILON, DELTA, STATES, 0.05),
    }
    epsilons = np.linspace(0.0, 0.25, 51)
    with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.5, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for name, pair in pairs.items():
            deltas = [
                privacy_profile(pair.alpha, pair.beta, STATES, float(e)).upper for e in epsilons
            ]
            axes.semilogy(epsilons, deltas, label=f"{name}: alpha = {pair.alpha:.4g}")
        axes.plot([EPSILON], [DELTA], "k*", markersize=11, label="what all four promise")
        axes.set_xlabel("epsilon")
        axes.set_ylabel("true delta")
        axes.set_ylim(1e-40, 2)
        axes.set_title(f"Privacy profiles, d = {STATES}", loc="left", fontsize=10)
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="center right")
        figure.savefig(PICTURES / "privacy-profile.png", dpi=150, metadata={"Software": "privalue"})
        figure.savefig(
            PICTURES / "privacy-profile.svg", metadata={"Date": None, "Creator": "privalue"}
        )


if __name__ == "__main__":
    privacy_profiles()
