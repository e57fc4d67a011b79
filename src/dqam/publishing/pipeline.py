"""From trips to a release: public choices are made, the budget is recorded as spent, and only then noise is drawn.

Whatever can fail for public reasons, or because a file cannot be read at all, fails before anything is spent. After
that the budget is gone, whatever happens: a crash never lets more be published than is recorded. No single trip decides
whether there is a release: rows that cannot be used are left out one by one, and a private look, which is paid for,
finds out whether there is hardly anything on the map.
"""

from __future__ import annotations

import math
import os
import posixpath
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import ArrayLike

from dqam.engines.disk import Disk
from dqam.errors import InputError, LedgerWarning, LeftOutWarning
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid, check_order
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import Snapped, random_rectangles, snap
from dqam.geometry.walks import Gap, walk
from dqam.mechanisms import Mechanism, make
from dqam.mechanisms.flux import Flux
from dqam.mechanisms.uncertainty import Doubt, doubt
from dqam.mechanisms.uniform import EmptyMapError
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import Keep, unknown
from dqam.privacy.curator import Curator
from dqam.privacy.ledger import Ledger, Spent
from dqam.privacy.noise import OpenDPNoise
from dqam.privacy.sketch import sketch_of
from dqam.release.release import Provenance, Release, check_crs
from dqam.runtime import stopping
from dqam.runtime.progress import Progress, bar, quiet, watching
from dqam.sources import Source, read
from dqam.statistics.records import MOST_TRIPS, AnyRecords, Engine, Records, Scanned
from dqam.values.guarantee import Number, Unit, parse_epsilon, spell

QUERIES = 16_000
MAX_TRIPS = 10  # of a person, if not said
LONGEST = 200  # characters of a title
TITLE = "Distinct trips on a map"
MEMORY = 4 << 30
ENGINES = ("local", "duckdb", "spark")
LARGE, HUGE = 4, 10  # epsilons above these get a remark, and need `sure`
LIBRARIES = ("dqam", "numpy", "numba", "opendp", "pyproj")


def publish(
    trips: Any,
    grid: Grid,
    epsilon: Number,
    mechanism: str = "flux",
    queries: ArrayLike | Snapped | None = None,
    unit: str = "trip",
    *,
    max_trips: int | None = None,
    gap: Gap | str | None = None,
    title: str = TITLE,
    dataset: str | None = None,
    total: Number | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    engine: str = "local",
    memory: int = MEMORY,
    progress: bool = False,
    sure: bool = False,
) -> Release:
    """Spend `epsilon` of a data set's budget and make a release that anyone may have.

    trips      what `dqam.read` gives or takes: a file, a data frame, MovingPandas trajectories; or Spark's data frame.
               Rows that cannot be used are left out one by one
    grid       where the map is: public, never taken from the trips
    epsilon    privacy budget of this publication, smaller is more private: 1, "0.1", Fraction(1, 3)
    mechanism  a name of `dqam.mechanisms.MECHANISMS`; "flux" also tells how far its answers may be off
    queries    rectangles, in the CRS of the grid, that the map should be good at; random ones if not given.
               They are public: never take them from the trips
    unit       whose presence is hidden: one "trip", or one "person" with at most `max_trips` trips, 10 if not given
    gap        trips are cut where the GPS was silent for longer, such as "120s" or "500m"
    title      of the map; public
    dataset    the name under which all that is published of these trips is added up; a file's own name if not given
    total      epsilon that may ever be spent on the data set, said at its first publication. If not given, the first
               publication spends it all
    ledger     the database of what was spent: a file, or a URL as of PostgreSQL; by default that of the user

    engine     "local" has all trips in memory; "duckdb" sorts points on disk; "spark" has a cluster count
    memory     bytes, about, that "duckdb" may take
    progress   whether to show how far reading and scans are, in a terminal or a notebook
    sure       publish even if something looks like a mistake: an epsilon above 10, bounds that seem to be in the wrong
               order, points without trip ids, trips that were published under another name, or a map on which a first,
               private look finds hardly anything

    The budget is recorded as spent before noise is drawn, and stays spent whatever happens then. A request for more
    than is left raises a `dqam.errors.BudgetError`, and nothing is spent. If the first look finds hardly
    anything, an `EmptyMapError` is raised, and only what that look cost is spent. Nothing else in the trips stops a
    publication.

    >>> import dqam
    >>> from dqam.cities import BOUNDS, city_trips
    >>> trips, grid = next(city_trips(2_000, seed=0)), dqam.Grid.over(BOUNDS, resolution=6)
    >>> release = dqam.publish(trips, grid, epsilon=1, dataset="an example")
    >>> release.provenance.promise
    'Differentially private for one trip, epsilon = 1.'
    >>> dqam.publish(trips, grid, epsilon=1, dataset="an example")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dqam.errors.BudgetError: ...
    """
    plan = Plan.of(grid, epsilon, mechanism, queries, unit, max_trips, gap, title)
    name = data_set_name(trips) if dataset is None else dataset
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    source, charges = source_of(trips, engine), list[Spent]()
    try:
        release, spent = carry_out(
            plan, source, name, book, total,
            engine=engine, memory=memory, progress=bar if progress else quiet, sure=sure, charged=charges.append,
        )  # fmt: skip
        book.saved(spent.id)
    finally:
        for note in (note for charge in charges for note in begun(charge, book)):
            warnings.warn(note, LedgerWarning, stacklevel=2)
    for note in source.left_out:
        warnings.warn(note, LeftOutWarning, stacklevel=2)
    return release


def carry_out(
    plan: Plan,
    trips: Any,
    name: str,
    ledger: Ledger,
    total: Number | None = None,
    *,
    engine: str = "local",
    memory: int = MEMORY,
    progress: Progress = quiet,
    sure: bool = False,
    charged: Callable[[Spent], None] = lambda spent: None,
) -> tuple[Release, Spent]:
    """The planned release, and what was charged for it; `charged` is called as soon as the charge is recorded."""
    source = source_of(trips, engine)
    plan.check(source, sure)
    ledger.check(name, plan.epsilon, plan.unit, total)
    began = datetime.now(UTC)  # before any trip is read: how long that takes is not for a release
    keep, noise = Keep.of(plan.unit, OpenDPNoise().generator()), OpenDPNoise()
    with records_of(plan, source, keep, engine, memory, progress, ledger.sketch_key) as records:
        with stopping.later():  # so that a stop always knows whether it was charged
            spent = ledger.spend(
                name, plan.epsilon, plan.unit, plan.mechanism, str(plan.grid), total, sketch=records.sketch, sure=sure
            )
            charged(spent)
        curator = Curator(records, Budget(plan.epsilon, name), noise, plan.unit, wary=not sure)
        try:
            return plan.release(curator, spent.id, keep.salt, source.row_is_trip, began), spent
        except EmptyMapError:
            ledger.settle(spent.id, curator.spent)
            raise


def begun(spent: Spent, ledger: Ledger) -> list[str]:
    """Notes for a new name or a new ledger, which may be a mistake that gives trips a second budget."""
    if spent.new_ledger:
        return [f"The ledger {ledger.place} is new. If there was another before, stop and restore it."]
    if not spent.new_data_set or not spent.others:
        return []
    others = ", ".join(spent.others[:5]) + (", ..." if len(spent.others) > 5 else "")
    return [
        f"{spent.data_set} is a new data set in the ledger, alongside {others}. If these trips were published under "
        "another name, use that name from now on: what was spent under both adds up."
    ]


def source_of(trips: Any, engine: str) -> Source:
    """The trips as they are read for publishing: rows that cannot be used are left out."""
    if engine == "spark" and isinstance(trips, str | os.PathLike):
        from dqam.engines.spark import frame_of

        trips = frame_of(trips)
    return (trips if isinstance(trips, Source) else read(trips)).for_publishing()


@contextmanager
def records_of(
    plan: Plan,
    trips: Any,
    keep: Keep,
    engine: str = "local",
    memory: int = MEMORY,
    progress: Progress = quiet,
    sketch_key: str | None = None,
) -> Iterator[AnyRecords]:
    """The trips that are kept, wherever they are stored; with a sketch of all trips if there is a key for it."""
    if keep.unit != plan.unit:
        raise InputError(f"Trips are kept for the unit {keep.unit}, and the plan is for {plan.unit}.")
    if engine not in ENGINES:
        raise InputError(f"There is no engine {engine!r}; use one of {', '.join(ENGINES)}.")
    if not isinstance(memory, int):
        raise InputError(f"Memory is a number of bytes, such as 4 << 30; got {memory!r}.")
    source = source_of(trips, engine)
    if source.frame is not None:
        if engine == "duckdb":
            raise InputError("A data frame of Spark is for Spark to count; write it to files for the engine 'duckdb'.")
        from dqam.engines.spark import Spark

        with Spark(source, keep, plan.grid, plan.gap, progress=progress, sketch_key=sketch_key) as cluster:
            yield _scanned(cluster, plan)
        return
    if engine == "spark":
        raise InputError(f"{source.name}: Spark reads Parquet files, or takes a data frame of its own.")
    if engine == "duckdb":
        with Disk(source, keep, plan.grid, plan.gap, memory, progress=progress, sketch_key=sketch_key) as sorted_points:
            yield _scanned(sorted_points, plan)
        return
    with watching(progress, f"Reading {source.name}", lambda: source.progress):
        whole = source.gathered()
    records = Records(walk(whole, plan.grid, plan.gap), keep.mask(whole.persons, whole.ids), plan.unit)
    if sketch_key is not None:
        records.sketch = sketch_of(keep.candidates(whole).summary(), sketch_key)
    yield records


def _scanned(engine: Engine, plan: Plan) -> Scanned:
    """Records with the engine after their first scan."""
    records = Scanned(engine, plan.queries)
    if records.trips()[0] > MOST_TRIPS:
        raise InputError(f"At most {MOST_TRIPS:,} trips can be asked at once; split the data set.")
    records.sketch = engine.sketch
    return records


def data_set_name(trips: Any) -> str:
    """A file's name without its endings; other trips have none.

    >>> data_set_name("taxis/2024.csv.gz"), data_set_name("s3a://bucket/phones/."), data_set_name("s3a://bucket")
    ('2024', 'phones', 'bucket')
    """
    if isinstance(trips, Source):
        trips = trips.path
    if isinstance(trips, str) and "://" in trips:
        url = urlsplit(trips)
        if url.scheme != "file":
            name = posixpath.basename(posixpath.normpath(unquote(url.path) or "/")) or url.netloc
            return name.partition(".")[0] or name
        trips = unquote(url.path)
    if not isinstance(trips, str | os.PathLike):
        raise InputError("Give the data set a name, dataset='...': all that is published of it is added up under it.")
    name = Path(trips).resolve().name  # what links lead to: one file has one name
    return name.partition(".")[0] or name


@dataclass(frozen=True, eq=False)
class Plan:
    """All choices of a publication, public and made before any trip is read.

    queries           int64[m, 4] rectangles of cells
    queries_in_words  what they are

    >>> plan = Plan.of(Grid.over((-8.68, 41.11, -8.56, 41.20)), "0.5", unit="person", max_trips=5)
    >>> plan.epsilon, plan.unit, plan.queries_in_words
    (Fraction(1, 2), Unit(name='person', max_trips=5), '16,000 random rectangles, all equally likely')
    """

    grid: Grid
    epsilon: Fraction
    mechanism: str
    unit: Unit
    queries: Integers
    queries_in_words: str
    gap: Gap | None
    title: str

    @classmethod
    def of(
        cls,
        grid: Grid,
        epsilon: Number,
        mechanism: str = "flux",
        queries: ArrayLike | Snapped | None = None,
        unit: str = "trip",
        max_trips: int | None = None,
        gap: Gap | str | None = None,
        title: str = TITLE,
    ) -> Plan:
        """A plan as `publish` is asked for it, checked."""
        make(mechanism)
        if not isinstance(grid, Grid):
            raise InputError(f"The map is a Grid, such as Grid.over((west, south, east, north)); got {grid!r:.60}.")
        check_crs(grid.crs)
        if not isinstance(title, str) or not title.isprintable() or not 0 < len(title) <= LONGEST:
            raise InputError(f"A title is a line of 1 to {LONGEST} characters; got {title!r:.60}.")
        whose = Unit(unit, max_trips if max_trips is not None else MAX_TRIPS if unit == "person" else 1)
        if queries is None:
            cells = random_rectangles(grid, QUERIES, np.random.default_rng(0))
            in_words = f"{QUERIES:,} random rectangles, all equally likely"
        else:
            cells = (queries if isinstance(queries, Snapped) else snap(np.asarray(queries), grid)).cells
            if not len(cells):
                raise InputError("A map needs at least one query to be good at; got none.")
            in_words = f"{len(cells):,} rectangles chosen by the publisher"
        silence = Gap.parse(gap) if isinstance(gap, str) else gap
        return cls(grid, parse_epsilon(epsilon), mechanism, whose, cells, in_words, silence, title)

    def check(self, source: Source, sure: bool = False) -> None:
        """Raise an `InputError` if columns are missing or, unless the custodian is `sure`, if something looks like a
        mistake. Looks at no row."""
        if self.unit.name == "person" and not source.has_persons:
            raise unknown("person")
        if self.gap is not None and math.isfinite(self.gap.seconds) and not source.has_times:
            raise InputError("A gap in seconds needs points with a time, and these have none; give the gap in metres.")
        if sure:
            return
        check_order(self.grid.bounds, self.grid.crs)
        if self.epsilon > HUGE:
            raise InputError(
                f"{remark(self.epsilon)} Give a smaller one (1 is common), or publish anyway with sure=True (--sure)."
            )
        if source.person_is_trip:
            rows = " If every row is a whole trip, leave out the time, columns={'time': ''} (--column time=)."
            raise InputError(
                f"{source.name} has no trip ids: all points of a {source.roles['person']} would be one trip. Name the "
                "column that has them, columns={'trip': ...} (--column trip=NAME), or publish anyway with sure=True "
                f"(--sure).{rows if 'geometry' in source.roles else ''}"
            )

    def release(
        self,
        curator: Curator,
        publication: str,
        salt: str = "",
        row_is_trip: bool = False,
        began: datetime | None = None,
    ) -> Release:
        """Ask the curator all that the mechanism wants to know, for all of its budget."""
        if curator.grid != self.grid or curator.unit != self.unit:
            raise InputError("The curator has another grid or unit than the plan.")
        histogram, doubted = self._synthesize(curator)
        provenance = Provenance(
            id=publication,
            title=self.title,
            created=(began or datetime.now(UTC)).isoformat(timespec="seconds"),
            mechanism=self.mechanism,
            parameters=parameters_of(make(self.mechanism)),
            epsilon=curator.spent,
            unit=self.unit,
            queries=self.queries_in_words,
            gap="" if self.gap is None else str(self.gap),
            salt=salt if self.unit.name == "person" else "",
            row_is_trip=row_is_trip,
            ledger=curator.ledger,
            private=curator.private,
            versions={name: version(name) for name in LIBRARIES},
        )
        return Release(histogram, provenance, doubted)

    def _synthesize(self, curator: Curator) -> tuple[SpatialHistogram, Doubt | None]:
        mechanism = make(self.mechanism)
        if isinstance(mechanism, Flux):
            estimate = mechanism.estimate(curator, self.queries, curator.budget)
            return estimate.histogram, doubt(estimate)
        return mechanism.synthesize(curator, self.queries, curator.budget), None


def remark(epsilon: Fraction) -> str:
    """What the promise still means at a large epsilon.

    >>> remark(Fraction(5))
    'Epsilon 5 is large: someone who is 50 % sure that a trip is in the data can become 99.3 % sure.'
    """
    after = 1 / (1 + math.exp(-min(float(epsilon), 700.0)))
    shown = f"{math.floor(1000 * after) / 10:g} %" if after < 0.999 else "more than 99.9 %"
    suspects = "someone who is 50 % sure that a trip is in the data"
    return f"Epsilon {spell(epsilon)} is large: {suspects} can become {shown} sure."


def parameters_of(mechanism: Mechanism) -> dict[str, Any]:
    """The parameters of a mechanism as plain values."""
    found = asdict(mechanism)  # type: ignore[call-overload]
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in found.items()}
