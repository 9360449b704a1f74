"""``python -m benchmarks.pictures``: makes the pictures of the documentation anew."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from privalue.core._calibration import appendix, exact, gaussian, nissim
from privalue.core._profile import privacy_profile
from privalue.ledger._squares import epsilon_spent, square_cost
from privalue.ledger._units import mu

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


def both_sums() -> None:
    """What twenty releases come to by plain sums and by squares, and how much noise a total asks.

    Each release on the left is (0.1, 5e-8), so that the plain sum ends at delta = 1e-6.
    """
    counts, total = np.arange(1, 21), (1.0, 1e-6)
    each, delta = gaussian(0.1, 5e-8).alpha, 1e-6
    squares = [epsilon_spent(int(k) * square_cost(mu(each), 1), delta) for k in counts]
    plain = [gaussian(total[0] / k, total[1] / k).alpha for k in map(int, counts)]
    by_squares = [gaussian(*total).alpha * np.sqrt(k) for k in counts]
    with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9.5, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        for axes, first, second in (
            (left, 0.1 * counts, squares),
            (right, plain, by_squares),
        ):
            axes.plot(counts, first, "s-", color="#D55E00", markersize=3, label="plain sums")
            axes.plot(counts, second, "o-", color="#0072B2", markersize=3, label="squares of mu")
            axes.set_xlabel("releases")
            axes.set_xlim(0, 20.5)
            axes.set_ylim(bottom=0)
            axes.set_xticks([1, 5, 10, 15, 20])
            axes.grid(color="0.92")
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, loc="upper left")
        left.set_ylabel("epsilon of all together, at delta 1e-6")
        left.set_title("Releases of (0.1, 5e-8) each", loc="left", fontsize=10)
        right.set_ylabel("noise of each release (alpha)")
        right.set_title("One total of (1, 1e-6), shared equally", loc="left", fontsize=10)
        figure.savefig(PICTURES / "both-sums.png", dpi=150, metadata={"Software": "privalue"})
        figure.savefig(PICTURES / "both-sums.svg", metadata={"Date": None, "Creator": "privalue"})
    print(f"twenty of (0.1, 5e-8): plain 2, squares {squares[-1]:.3g}")
    for k in (2, 3, 5, 10, 20):
        print(f"{k} releases: plain sums ask for {plain[k - 1] / by_squares[k - 1]:.3g} the noise")


if __name__ == "__main__":
    privacy_profiles()
    both_sums()
