"""Measure the tables behind `dqam publish --plan`: python -m benchmarks.forecast_table --data DIR.

Flux is run on several data sets on 256 x 256 cells, once with a pure budget and once with one of rho, as for a delta.
The signal, trips * epsilon or trips * sqrt(2 rho), is varied through the budget: for each signal, a data set takes the
fewest trips for which epsilon, or sqrt(2 rho), is about 1 or less, or all it has. Real data, which cannot be made
larger, is used up to 4. The error of each band of sizes is relative to its average answer. With the folder of real
data, the command writes src/dqam/publishing/forecast.json, the tables in docs/choosing.md and the plan shown in
docs/tutorial.md; --only measures one of the two tables and keeps the other, or measures nothing and writes only the
documents. Without the folder, the command measures only the made-up city and writes to the folder of generated data.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

import dqam
from benchmarks.flux_accuracy import all_inside
from benchmarks.measure import build, city, options
from dqam import cities
from dqam.experiments.datasets import DataSet, made_up, real
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Bounds, Grid
from dqam.geometry.rectangles import BANDS_OF, random_rectangles, size_bands
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms.flux import Flux
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing import forecast_table
from dqam.publishing.forecast import forecast
from dqam.publishing.forecast_table import (
    FILE,
    GAUSSIAN,
    PURE,
    ForecastTable,
    MeasuredDataSet,
    PlannedQuestion,
    measured_tables,
)
from dqam.publishing.plan import LARGE, QUERIES, Plan
from dqam.release.formatting import error_in_words
from dqam.sources import read
from dqam.statistics.distinct import DistinctTrips

SIGNALS = {
    PURE: (
        *(20, 50, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 20_000),
        *(50_000, 100_000, 300_000, 1_000_000, 3_000_000),
    ),
    GAUSSIAN: (20, 50, 100, 200, 400, 700, 1_500, 3_000, 6_000, 12_000, 15_000, 30_000, 100_000, 300_000),
}
RUNS = {PURE: ((500, 12), (20_000, 4)), GAUSSIAN: ((100, 12), (3_000, 4))}  # up to these signals; one run above them
SHOWN = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)  # in docs/choosing.md
TRIPS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)  # in the table of what a delta buys
EPSILONS, DELTA = ("0.1", "1"), "1e-8"
SIZES = (1_000, 5_000, 30_000)  # trips
RIDES = "valleybike.parquet"
TOWN, VALLEY = (-72.70, 42.29, -72.60, 42.37), (-72.75, 42.10, -72.46, 42.46)  # Northampton, and all stations
JUDGES = 4_000  # rectangles of each band
DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 120  # of a page


@dataclass(frozen=True, eq=False)
class Sample:
    """Trips of one data set, with the rectangles on which flux is judged and their exact counts, by band."""

    trips: int
    kept: Aggregates
    queries: Integers
    judges: dict[str, Integers]
    truth: dict[str, Floats]

    @classmethod
    def of(cls, walks: Walks, judges: int = JUDGES) -> Sample:
        """A sample that judges flux on rectangles for which it is not tuned."""
        grid, rng = walks.grid, np.random.default_rng(2)
        kept = Aggregates.of(walks)
        asked = {band.name: band.draw(grid, judges, rng) for band in size_bands(grid)}
        truth = {band: kept.total(DistinctTrips(rectangles)).astype(np.float64) for band, rectangles in asked.items()}
        whole = np.array([[0, 0, grid.columns, grid.rows]])
        trips = int(kept.total(DistinctTrips(whole))[0])
        return cls(trips, kept, random_rectangles(grid, QUERIES, np.random.default_rng(0)), asked, truth)

    def run(self, kind: str, signal: int, seed: int) -> tuple[dict[str, float], tuple[PlannedQuestion, ...]]:
        """The relative error of each band in a run of flux, and the questions that it asked.

        A budget that is made from a rho belongs to no promise, so flux cannot exchange it for a pure one.
        """
        precision = Fraction(signal, self.trips)
        budget = Budget(precision**2 / 2, concentrated=True) if kind == GAUSSIAN else Budget(precision)
        curator = Curator(self.kept, budget, SeededNoise(seed))
        histogram = Flux().synthesize(curator, self.queries, curator.budget).histogram
        errors = {}
        for band, rectangles in self.judges.items():
            off = np.abs(np.clip(histogram.answers(rectangles), 0, max(histogram.total, 0)) - self.truth[band])
            errors[band] = float(off.mean() / self.truth[band].mean())
        asked = [PlannedQuestion(paid.kind, paid.name, float(paid.cost / budget.amount)) for paid in curator.paid]
        return errors, tuple(asked)


@dataclass(frozen=True)
class Measurement:
    """The samples of one data set, in ascending order of size."""

    label: str
    samples: list[Sample]
    made: bool

    def sample(self, signal: float) -> Sample | None:
        """The sample to use at a signal; None if there is too little real data for it."""
        enough = [sample for sample in self.samples if sample.trips >= 0.9 * signal]
        if enough:
            return enough[0]
        largest = self.samples[-1]
        return largest if self.made or LARGE * largest.trips >= signal else None

    def result(self, errors: dict[str, list[float | None]]) -> MeasuredDataSet:
        """What was measured on them, rounded to three significant digits."""
        largest = self.samples[-1]
        return MeasuredDataSet(
            self.label,
            tuple(sample.trips for sample in self.samples),
            {band: float(f"{truth.mean() / largest.trips:.3g}") for band, truth in largest.truth.items()},
            {band: tuple(error and float(f"{error:.3g}") for error in found) for band, found in errors.items()},
        )


def measurements(folder: Path | None, sizes: tuple[int, ...], resolution: int, judges: int) -> Iterator[Measurement]:
    """The data sets: generated ones in several sizes and, if there is a folder, real ones."""

    def laid(trips: Trips, bounds: Bounds) -> Sample:
        return Sample.of(walk(trips, Grid.over(bounds, resolution)), judges)

    def generated(label: str, data: DataSet, sizes: tuple[int, ...], made: bool = True) -> Measurement:
        samples = [laid(Trips.concat(list(data.make(n, 1))), data.bounds) for n in sizes]
        return Measurement(label, samples, made)

    for data in made_up():
        yield generated(data.label(sizes[-1]), data, sizes)
    if folder is None:
        return
    porto, melbourne = real(folder)
    yield generated("Melbourne, generated", melbourne, sizes)
    yield generated("Porto, generated", porto, sizes[1:])
    yield generated("Porto, real taxi trips", porto, (sizes[0], all_inside(folder)), made=False)
    rides = read(folder / RIDES).trips()
    yield Measurement("Northampton, real bike rides", [laid(rides, TOWN)], made=False)
    yield Measurement("Pioneer Valley, real bike rides", [laid(rides, VALLEY)], made=False)


def runs(kind: str, signal: int) -> int:
    """How many runs to average: more where noise matters more and a run is quick."""
    return next((count for most, count in RUNS[kind] if signal <= most), 1)


def measure(found: list[Measurement], kind: str, signals: tuple[int, ...], tiny: bool = False) -> ForecastTable:
    """Run flux on all data sets at all signals, only once if it is only to show that it runs."""
    asked: list[list[tuple[PlannedQuestion, ...]]] = [[] for _ in signals]
    results = []
    for one in found:
        began, errors = time.perf_counter(), defaultdict[str, list[float | None]](list)
        for at, signal in enumerate(signals):
            sample = one.sample(signal)
            made = (
                [sample.run(kind, signal, seed) for seed in range(1 if tiny else runs(kind, signal))] if sample else []
            )
            asked[at] += [questions for _, questions in made]
            for band in one.samples[0].judges:
                errors[band].append(float(np.mean([by_band[band] for by_band, _ in made])) if made else None)
        results.append(one.result(errors))
        print(f"{kind}, {one.label}: {time.perf_counter() - began:.0f} s", flush=True)
    budgets = tuple(typical(budgets) for budgets in asked)
    return ForecastTable(dqam.__version__, Flux.name, signals, budgets, tuple(results))


def typical(budgets: list[tuple[PlannedQuestion, ...]]) -> tuple[PlannedQuestion, ...]:
    """The questions that were asked most often, with their mean shares."""
    ((names, _),) = Counter(tuple(asked.name for asked in budget) for budget in budgets).most_common(1)
    same = [budget for budget in budgets if tuple(asked.name for asked in budget) == names]
    return tuple(
        PlannedQuestion(each[0].kind, each[0].name, round(float(np.mean([asked.share for asked in each])), 4))
        for each in zip(*same, strict=True)
    )


def docs_rows(table: ForecastTable) -> list[str]:
    """The table of errors by signal and band, as lines of Markdown."""
    bands = list(table.data_sets[0].errors)
    sides = [band.replace("-", " to ") for band in bands]
    rows = [["signal", *sides], ["---"] * (len(bands) + 1)]
    for signal in SHOWN:
        found = [table.error(band, signal) for band in bands]
        rows.append([f"{signal:,}", *(error_in_words(one.error, one.low, one.high) for one in found)])
    return [f"| {' | '.join(row)} |".replace("\xa0", " ") for row in rows]


def delta_rows() -> list[str]:
    """The table of what a delta buys, by the tables that come with dqam, as lines of Markdown."""
    grid = Grid.over(cities.BOUNDS, BANDS_OF.bit_length() - 1)
    sides = [band.name.replace("-", " to ") for band in size_bands(grid)]
    rows = [["trips", "epsilon", "delta", *sides], ["---"] * (len(sides) + 3)]
    for trips, epsilon in itertools.product(TRIPS, EPSILONS):
        pure = forecast(Plan.of(grid, epsilon), trips)
        made = forecast(Plan.of(grid, epsilon, delta=DELTA), trips)
        errors = [error_in_words(one.error) for one in pure.errors]
        if made.concentrated:
            errors = [f"{old} → {error_in_words(new.error)}" for old, new in zip(errors, made.errors, strict=True)]
        rows.append([f"{trips:,}", epsilon, DELTA if made.concentrated else "no delta used", *errors])
    return [f"| {' | '.join(row)} |".replace("\xa0", " ") for row in rows]


def with_rows(*tables: list[str]) -> str:
    """The page about choices with these tables of errors, each in the place of one with the same first column."""
    page = (DOCS / "choosing.md").read_text(encoding="utf-8")
    page = re.sub(r"(?<=The tables were measured with version )\S+(?=\. )", dqam.__version__, page)
    for rows in tables:
        first, text = rows[0].split(" | ")[0], "".join(f"{row}\n" for row in rows)
        page = re.sub(rf"^{re.escape(first)} \|.*\n(\|.*\n)*", text, page, flags=re.MULTILINE)
    return page


def with_plan() -> str:
    """The tutorial with what its `--plan` prints now; a plan reads no trips, so any file of trips will do."""
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    before, command, after = re.split(
        r"^(dqam publish city\.parquet .*--plan.*)$", page, maxsplit=1, flags=re.MULTILINE
    )
    arguments = [str(city(1_000)) if word == "city.parquet" else word for word in command.split()[1:]]
    done = subprocess.run([sys.executable, "-m", "dqam", *arguments], capture_output=True, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.replace("\xa0", " ").splitlines()]
    shown = "\n".join(textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in lines)
    return f"{before}{command}" + re.sub(
        r"(?<=```text\n).*?(?=\n```)", lambda _: shown, after, count=1, flags=re.DOTALL
    )


def main(*arguments: str) -> None:
    """Measure, and write the tables."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path, help="folder of real data")
    parser.add_argument("--only", choices=(PURE, GAUSSIAN, "docs"), help="measure only this table, or nothing")
    given = parser.parse_args(arguments or None)
    whole = (given.data is not None or given.only == "docs") and not given.tiny
    tables = dict(measured_tables()) if whole else {}
    wanted = [kind for kind in (PURE, GAUSSIAN) if given.only in (None, kind)]
    size = ((100, 300), 5, 200) if given.tiny else (SIZES, BANDS_OF.bit_length() - 1, JUDGES)
    found = list(measurements(None if given.tiny else given.data, *size)) if wanted else []
    for kind in wanted:
        tables[kind] = measure(found, kind, (100, 1_000) if given.tiny else SIGNALS[kind], given.tiny)
        write(tables, Path(forecast_table.__file__).with_name(FILE) if whole else build() / FILE)
        print(*docs_rows(tables[kind]), sep="\n")
    if whole:
        measured_tables.cache_clear()
        changed = with_rows(docs_rows(tables[PURE]), delta_rows())
        for page, text in ((DOCS / "choosing.md", changed), (DOCS / "tutorial.md", with_plan())):
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page}")


def write(tables: dict[str, ForecastTable], target: Path) -> None:
    """Write the tables as JSON, with one line for each budget and each data set."""
    lines = ",\n".join(
        f' "{kind}": {{\n'
        + ",\n".join(f"  {json.dumps(name)}: {_lines(value)}" for name, value in table.to_json().items())
        + "\n }"
        for kind, table in tables.items()
    )
    target.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"wrote {target}", flush=True)


def _lines(value: object) -> str:
    """JSON with one line for each entry of a list of lists or objects."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"   {json.dumps(each)}" for each in value) + "\n  ]"
    return json.dumps(value)


if __name__ == "__main__":
    main()
