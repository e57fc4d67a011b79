"""The mechanisms that turn trips into a histogram that may be published, and a table of all of them.

The parameters of a mechanism are in its constructor. It asks a curator in the call `synthesize(curator, queries,
budget)`, and never sees a trip (see `dqam.mechanisms.mechanism`). Each mechanism has its own module. The other modules
are steps that several mechanisms share (`size`, `spreading`, `rounds`) or parts of one (`flux_fit`, `flux_uncertainty`,
and `quadtree` of DQAM). Only flux gives confidence intervals. "The paper" is *A Differentially Private Algorithm for
Range Queries on Trajectories* by Ghane, Kulik and Ramamohanarao, which introduced DQAM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dqam.errors import InputError
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.mechanisms.flux import Flux
from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.mechanism import Mechanism, Synthesis
from dqam.mechanisms.mwem import Mwem
from dqam.mechanisms.prish import Prish
from dqam.mechanisms.uniform import Uniform

__all__ = [
    "MECHANISMS",
    "Dawa",
    "Dqam",
    "Flux",
    "Laplace",
    "Mechanism",
    "Mwem",
    "Prish",
    "Synthesis",
    "Uniform",
    "make",
]


@dataclass(frozen=True)
class MechanismInfo:
    """A row of the table of mechanisms.

    make  makes one with its default parameters; None for forms that only reproduce the paper, which are not private, so
          that they cannot be published
    """

    about: str
    make: Callable[[], Mechanism] | None
    data_aware: bool = False
    query_aware: bool = False
    consistent: str = ""  # how: no edge exceeds its faces ("greedy", "optimal"), or answers are "monotone"

    @property
    def publishable(self) -> bool:
        """Whether its privacy is proven."""
        return self.make is not None


def _sound(mechanism: type[Mechanism], data_aware: bool = False, consistent: str = "") -> MechanismInfo:
    return MechanismInfo(str(mechanism.about), mechanism, data_aware, True, consistent)


def _printed(about: str, data_aware: bool = False, consistent: str = "") -> MechanismInfo:
    return MechanismInfo(f"{about}; only to reproduce the paper", None, data_aware, True, consistent)


MECHANISMS: dict[str, MechanismInfo] = {
    "flux": _sound(Flux, consistent="monotone"),
    "uniform": _sound(Uniform, consistent="optimal"),
    "laplace": _sound(Laplace),
    "mwem": _sound(Mwem),
    "dawa": _sound(Dawa, data_aware=True),
    "prish": _sound(Prish, consistent="greedy"),
    "dqam": _sound(Dqam, data_aware=True, consistent="optimal"),
    "laplace-printed": _printed("LM as printed: noise on every query"),
    "mwem-printed": _printed("MWEM as printed: faces only, rounds chosen in hindsight"),
    "dawa-printed": _printed("DAWA as printed: faces only", data_aware=True),
    "prish-printed": _printed("PriSH as printed: rounds chosen in hindsight", consistent="greedy"),
    "dqam-printed": _printed("DQAM as printed", data_aware=True, consistent="optimal"),
}


def make(mechanism: str | Mechanism) -> Mechanism:
    """A mechanism by its name, with its default parameters, or the object itself; an error if it is not private.

    >>> make("flux") == Flux(), make(Flux(side=24)).name
    (True, 'flux')
    """
    names = ", ".join(name for name, info in MECHANISMS.items() if info.publishable)
    if not isinstance(mechanism, str):
        lacking = [
            name
            for name in ("name", "about", "monotone", "known_questions", "synthesize")
            if not hasattr(mechanism, name)
        ]
        if lacking or isinstance(mechanism, type):
            raise InputError(
                f"mechanism must be one of {names}, or an object such as Flux(side=24); got {mechanism!r:.60}."
            )
        return mechanism
    if mechanism not in MECHANISMS:
        raise InputError(f"There is no mechanism {mechanism!r}; use one of {names}.")
    build = MECHANISMS[mechanism].make
    if build is None:
        raise InputError(f"{mechanism} is not private and exists only to reproduce the paper; use one of {names}.")
    return build()
