"""How trips become a histogram that may be published: one mechanism a module, and the table of them all.

A mechanism has its parameters in the constructor and asks a curator in the call:
`synthesize(curator, queries, budget) -> SpatialHistogram`. It never sees a trip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.mechanisms.flux import Flux
from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.mwem import Mwem
from dqam.mechanisms.prish import Prish
from dqam.mechanisms.uniform import Uniform
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator


class Mechanism(Protocol):
    """Whatever makes a private histogram."""

    def synthesize(self, curator: Curator, queries: Integers, budget: Budget) -> SpatialHistogram:
        """A histogram whose answers are near the distinct counts, those of `queries` above all."""


@dataclass(frozen=True)
class Known:
    """A row of the table of mechanisms.

    make  how to make one with its default parameters; None where the form is for reproduction only: what is not
          private cannot be made here, and so not be published
    """

    about: str
    make: Callable[[], Mechanism] | None
    data_aware: bool = False
    query_aware: bool = False
    consistent: str = ""  # every edge at most both its faces, by a greedy rule or optimally; or all answers monotone

    @property
    def publishable(self) -> bool:
        """Whether its privacy has a proof."""
        return self.make is not None


MECHANISMS: dict[str, Known] = {
    "flux": Known(
        "Flux: shadows of trips on a lattice, answers that grow with the area", Flux, False, True, "monotone"
    ),
    "uniform": Known("trips spread evenly: the floor", Uniform, query_aware=True, consistent="optimal"),
    "laplace": Known("LM: noise on every cell", Laplace, query_aware=True),
    "mwem": Known("MWEM: cells in the worst query reweighted", Mwem, query_aware=True),
    "dawa": Known("DAWA: buckets of like cells, counted as queries need", Dawa, data_aware=True, query_aware=True),
    "prish": Known("PriSH: MWEM on faces and edges", Prish, query_aware=True, consistent="greedy"),
    "dqam": Known("DQAM: regions of a quadtree, reweighted", Dqam, True, True, "optimal"),
    "laplace-printed": Known("LM as the paper has it: noise on every query", None, query_aware=True),
    "mwem-printed": Known("MWEM as the paper has it: faces only, T by hindsight", None, query_aware=True),
    "dawa-printed": Known("DAWA as the paper has it: faces only", None, data_aware=True, query_aware=True),
    "prish-printed": Known("PriSH as the paper has it: T by hindsight", None, query_aware=True, consistent="greedy"),
    "dqam-printed": Known("DQAM as printed", None, data_aware=True, query_aware=True, consistent="optimal"),
}


def make(name: str) -> Mechanism:
    """The mechanism of that name, with its default parameters; refuses what may not be published."""
    if name not in MECHANISMS:
        known = ", ".join(key for key, row in MECHANISMS.items() if row.publishable)
        raise InputError(f"There is no mechanism {name!r}; use one of {known}.")
    row = MECHANISMS[name]
    if row.make is None:
        raise InputError(f"{name} is not private: it is for reproducing the paper, and nothing is published with it.")
    return row.make()
