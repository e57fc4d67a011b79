"""The chart of an audit: the measured lower bounds on epsilon beside the claim."""

from __future__ import annotations

import os

from dqam.errors import InputError
from dqam.runtime.files import replacing


def draw_audit(rows: list[tuple[str, float, bool]], epsilon: float, note: str, path: str | os.PathLike[str]) -> None:
    """Save a chart of rows (name, lower bound on epsilon, whether it should stay below the claim)."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Drawing needs matplotlib: pip install 'dqam[plot]'.") from None

    figure = Figure(figsize=(9, 1.4 + 0.34 * len(rows)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for place, (_, bound, sound) in enumerate(reversed(rows)):
        axes.barh(place, bound, height=0.62, color="#2c7fb8" if sound else "#d95f0e")
        axes.text(0, place, f" {bound:.2f}", va="center", fontsize=8, color="white", fontweight="bold")
    axes.set_yticks(range(len(rows)), [name for name, _, _ in reversed(rows)], fontsize=9)
    axes.axvline(epsilon, color="black", linewidth=1.2, linestyle="--")
    axes.text(epsilon, len(rows) - 0.4, f" claimed: {epsilon:g}", fontsize=8, va="bottom")
    axes.set_ylim(-0.6, len(rows) + 0.2)
    axes.set_xlim(0, 1.12 * max(epsilon, *(bound for _, bound, _ in rows)))
    axes.set_xlabel("measured lower bound on epsilon")
    axes.set_title(
        "Audit: blue must stay at or below the claim, orange (broken on purpose) must exceed it",
        loc="left",
        fontsize=10,
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(note, fontsize=7, color="#555555", x=0.01, ha="left")
    with replacing(path) as temporary:
        figure.savefig(temporary)
