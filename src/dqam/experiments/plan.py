"""The runs that each figure needs. Figures share runs, so tasks are collected in sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dqam.experiments.printed import PRINTED
from dqam.experiments.protocol import (
    DISTINCT,
    EXACT,
    NO_NOISE,
    PAPER,
    START,
    Task,
    has_rounds,
    publishable,
)

FIGURES = {
    "size": "Error by data set and size",
    "deviation": "Standard deviation of the error",
    "queries": "Error by number of queries",
    "resolution": "Error by resolution",
    "kld": "Divergence of the faces",
    "time": "Running time",
    "claims": "The paper's claims",
}
DIVERGING = ("dqam", "prish", "mwem")  # the mechanisms whose divergence the paper shows
TIMED = "dqam"


@dataclass(frozen=True)
class Settings:
    """The values that the experiments vary, and the ones at which they hold the others.

    rounds     the values of T that the paper's protocol tries, to report the best
    hindsight  the values of T tried for baselines under the distinct protocol, as a reference that is not private
    """

    sizes: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    epsilons: tuple[float, ...] = (0.01, 0.05, 0.1, 0.5, 1.0)
    queries: int = 16_000
    query_counts: tuple[int, ...] = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
    resolution: int = 8
    resolutions: tuple[int, ...] = (4, 5, 6, 7, 8, 9)
    rounds: tuple[int, ...] = (10, 12, 14, 16, 18, 20)
    hindsight: tuple[int, ...] = (10, 14, 20)
    timed_epsilon: float = 0.1
    runs: int = 5
    seed: int = 0

    @classmethod
    def quick(cls) -> Settings:
        """Smaller settings, which take a few minutes."""
        return cls(
            sizes=(1_000, 20_000),
            query_counts=(1_000, 8_000, 16_000),
            resolutions=(4, 6, 8),
            rounds=(10, 20),
            hindsight=(),
            runs=3,
        )


@dataclass(frozen=True)
class Spot:
    """A setting in which mechanisms are compared: a panel of a figure."""

    data: str
    trips: int
    resolution: int
    queries: int


@dataclass(frozen=True)
class ExperimentPlan:
    """All figures for some settings, on two data sets: the names of the skewed and of the nearly uniform one."""

    settings: Settings
    skewed: str
    even: str

    @property
    def home(self) -> Spot:
        """The paper's default setting: its smallest, skewed data set."""
        chosen = self.settings
        return Spot(self.skewed, chosen.sizes[0], chosen.resolution, chosen.queries)

    def spots(self, figure: str) -> list[Spot]:
        """The panels of a figure, in reading order."""
        chosen, home = self.settings, self.home
        if figure == "deviation":
            return [home]
        if figure == "queries":
            return [replace(home, queries=count) for count in chosen.query_counts]
        if figure == "resolution":
            return [replace(home, resolution=resolution) for resolution in chosen.resolutions]
        return [replace(home, data=data, trips=trips) for data in (self.skewed, self.even) for trips in chosen.sizes]

    def mechanisms(self, figure: str, protocol: str) -> list[str]:
        """The mechanisms of a figure, without references."""
        everyone = list(publishable() if protocol == DISTINCT else PRINTED)
        if figure == "kld":
            return [name for name in everyone if name.removesuffix("-printed") in (*DIVERGING, "uniform")]
        if figure == "time":
            return [name for name in everyone if name.removesuffix("-printed") == TIMED]
        return everyone

    def tasks(self, figure: str) -> set[Task]:
        """All runs that a figure needs."""
        if figure == "claims":
            return {task for other in FIGURES if other != "claims" for task in self.tasks(other)}
        return {
            task
            for spot in self.spots(figure)
            for protocol in (DISTINCT, PAPER)
            for task in self._at(spot, figure, protocol)
        }

    def _at(self, spot: Spot, figure: str, protocol: str) -> Iterator[Task]:
        chosen, timed = self.settings, figure == "time"
        if not timed:
            yield self._task(protocol, spot, NO_NOISE, EXACT if protocol == DISTINCT else START)
        for name in self.mechanisms(figure, protocol):
            for epsilon in [chosen.timed_epsilon] if timed else chosen.epsilons:
                for rounds in self._rounds(name, protocol, timed):
                    for run in range(chosen.runs):
                        yield self._task(protocol, spot, epsilon, name, rounds, run, timed)

    def _rounds(self, name: str, protocol: str, timed: bool) -> tuple[int, ...]:
        chosen = self.settings
        if protocol == PAPER:
            tried = chosen.rounds if PRINTED[name].by_rounds else (0,)
            return tried[:1] if timed else tried
        return (0, *chosen.hindsight) if not timed and name != "dqam" and has_rounds(name) else (0,)

    @staticmethod
    def _task(
        protocol: str, spot: Spot, epsilon: float, name: str, rounds: int = 0, run: int = 0, alone: bool = False
    ) -> Task:
        return Task(protocol, spot.data, spot.trips, spot.resolution, spot.queries, epsilon, name, rounds, run, alone)
