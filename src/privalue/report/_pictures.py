"""Draw value functions, as PNG and SVG."""

from collections.abc import Sequence
from pathlib import Path


def draw_values(
    private: Sequence[float],
    truth: Sequence[float],
    *,
    title: str,
    folder: Path,
    name: str = "values",
    intervals: Sequence[tuple[float | None, float | None]] | None = None,
) -> list[Path]:
    """Draw private against true values by state, with privacy intervals if given.

    Args:
        private: the released values.
        truth: the true values.
        title: of the figure.
        folder: where the files go.
        name: of the files, without an ending.
        intervals: both ends of each privacy interval; an end that was not released is None.

    Returns:
        The paths of the PNG and the SVG file.
    """
    from privalue.report.drawing import (  # noqa: PLC0415 - an extra, and heavy
        Figure,
        FigureCanvasAgg,
        mpl,
    )

    with mpl.rc_context({"svg.hashsalt": "privalue", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.plot(range(len(truth)), truth, color="0.35", linewidth=1.5, label="true value")
        known = [
            (at, low, high)
            for at, (low, high) in enumerate(intervals or ())
            if low is not None and high is not None
        ]
        if known:
            axes.vlines(
                [at for at, _, _ in known],
                [low for _, low, _ in known],
                [high for _, _, high in known],
                color="#8db8d4",
                linewidth=4,
                label="privacy interval",
            )
        axes.plot(
            range(len(private)),
            private,
            "o",
            color="#0b6fa4",
            markersize=5,
            markerfacecolor="white",
            label="private release",
        )
        axes.set_xlabel("state")
        axes.set_ylabel("value")
        axes.set_title(title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.legend(frameon=False, loc="upper left")
        files = [folder / f"{name}.png", folder / f"{name}.svg"]
        figure.savefig(files[0], dpi=150, metadata={"Software": "privalue"})
        figure.savefig(files[1], metadata={"Date": None, "Creator": "privalue"})
    return files
