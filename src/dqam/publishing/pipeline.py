"""The publishing pipeline, from trips to a release: check public choices, charge the budget, and only then draw noise.

Whatever can fail for public reasons, or because a file cannot be read at all, fails before anything is spent. After
that the budget is gone, whatever happens: a crash never lets more be published than is recorded. No single trip decides
whether there is a release: rows that cannot be used are left out one by one, and a private measurement, which is paid
for, determines whether there are hardly any trips on the map.
"""

from __future__ import annotations

import os
import posixpath
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from numpy.typing import ArrayLike

from dqam.engines.disk import Disk
from dqam.errors import InputError, LedgerWarning, LeftOutWarning
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import Snapped
from dqam.geometry.slicing import Slicing
from dqam.geometry.walks import Gap, walk
from dqam.mechanisms import Mechanism
from dqam.mechanisms.size import EmptyMapError
from dqam.privacy.aggregates import Aggregates, Engine, InMemory
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.ledger import Charge, Ledger
from dqam.privacy.noise import OpenDPNoise
from dqam.privacy.sketch import sketch_of
from dqam.publishing.plan import TITLE, Plan
from dqam.release.release import Release
from dqam.runtime import stopping
from dqam.runtime.progress import Progress, bar, quiet, watching
from dqam.sources import Readable, Source, read
from dqam.statistics import MOST_TRIPS, TripCount
from dqam.values.guarantee import Number

MEMORY = 4 << 30
ENGINES = ("local", "duckdb", "spark")


def publish(
    trips: Readable | Source,
    grid: Grid | Sequence[float],
    epsilon: Number,
    *,
    delta: Number | None = None,
    expect: int | None = None,
    mechanism: str | Mechanism = "flux",
    queries: ArrayLike | Snapped | None = None,
    gap: Gap | str | None = None,
    by: str | Slicing | None = None,
    timezone: str | None = None,
    prior: Release | str | os.PathLike[str] | None = None,
    flows: bool | Number = False,
    title: str = TITLE,
    unit: str = "trip",
    max_trips: int | str | None = None,
    dataset: str | None = None,
    total: Number | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    sure: bool = False,
    engine: str = "local",
    memory: int = MEMORY,
    progress: bool = False,
) -> Release:
    """Spend `epsilon` of a data set's budget and return a release that anyone may have.

    trips      what `dqam.read` returns or accepts: a file, a data frame, MovingPandas trajectories or a Spark data
               frame. Rows that cannot be used are left out one by one
    grid       where the map is: a `Grid`, or west, south, east and north in degrees. It is public: never take it from
               the trips
    epsilon    privacy budget of this publication; smaller is more private: 1, "0.1", Fraction(1, 3)
    delta      tiny probability, such as 1e-8, by which the guarantee is weakened: any event is at most exp(epsilon)
               times as likely as without the unit, plus delta. Errors in small areas are then often a third smaller. By
               default there is none
    expect     about how many trips there are, to check that delta is small enough. It is public: do not count them

    What is published:
    mechanism  a name of `dqam.mechanisms.MECHANISMS` or a mechanism such as `Flux(side=24)`; "flux" also gives
               confidence intervals. An object of your own is code that you must trust: it runs with access to the trips
    queries    rectangles, in the CRS of the grid, that the map is tuned for; random ones by default. They are public:
               never take them from the trips
    gap        trips are cut between two points that are further apart than this, such as "120s" or "500m"
    by         slices that each trip is in one of, by when it starts or by a column: "hour", "weekday", "weekpart",
               "month", "COLUMN=a,b,c", or a product such as "hour*weekpart". All are public. A fifth of epsilon is
               spent on them, however many there are
    timezone   in which clocks are read, such as "Europe/Lisbon". By default times are taken as they are written
    prior      where trips probably are, for few trips: a `Release`, or the file of one (.nc) or of a GeoTIFF of any
               density, such as population. It is public and declared in the release: NEVER make it from the trips that
               are published, except by an earlier release of them
    flows      also publish how many trips go from one area to another (`Release.flow`), for a fifth of epsilon, or
               for another share of it, such as flows=0.25
    title      of the map; public

    The promise:
    unit       whose presence is hidden: one "trip", or one "person" with all their trips
    max_trips  at most this many trips of each person are used, chosen at random; 10 by default. "auto" chooses the
               number from a private measurement that is needed in any case, to scale counts up
    dataset    the name of the data set, to whose budget everything published of these trips is charged; by default the
               file's own name
    total      epsilon that may ever be spent on the data set, set at its first publication. By default the first
               publication spends it all
    ledger     the database that records what was spent: a file, or a URL such as that of a PostgreSQL database; by
               default the user's own
    sure       publish even if something looks like a mistake: an epsilon above 10, a delta above 1e-6, bounds that seem
               to be in the wrong order, points without trip ids, trips that were published under another name, or a map
               on which a first, private look finds hardly anything

    Where it is counted:
    engine     "local" has all trips in memory; "duckdb" sorts points on disk; "spark" uses a cluster
    memory     bytes, about, that "duckdb" may use
    progress   whether to show the progress of reading and scans, in a terminal or a notebook

    The budget is recorded as spent before noise is drawn, and stays spent whatever happens then. A request for more
    than is left raises a `dqam.BudgetError`, and nothing is spent. If the first look finds hardly
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
    plan = Plan.of(grid, epsilon, mechanism, queries, unit, max_trips, gap, title, delta, by, timezone, prior, flows)
    name = data_set_name(trips) if dataset is None else dataset
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    source, charges = source_of(trips, engine), list[Charge]()
    try:
        release, spent = carry_out(
            plan, source, name, book, total,
            engine=engine, memory=memory, progress=bar if progress else quiet, sure=sure, expect=expect,
            charged=charges.append,
        )  # fmt: skip
        book.delivered(spent.id)
    finally:
        for note in (note for charge in charges for note in begun(charge, book)):
            warnings.warn(note, LedgerWarning, stacklevel=2)
    for note in source.left_out:
        warnings.warn(note, LeftOutWarning, stacklevel=2)
    if note := release.delta_note:
        warnings.warn(note, UserWarning, stacklevel=2)
    return release


def carry_out(
    plan: Plan,
    trips: Readable | Source,
    name: str,
    ledger: Ledger,
    total: Number | None = None,
    *,
    engine: str = "local",
    memory: int = MEMORY,
    progress: Progress = quiet,
    sure: bool = False,
    expect: int | None = None,
    charged: Callable[[Charge], None] = lambda spent: None,
) -> tuple[Release, Charge]:
    """The planned release, and what was charged for it; `charged` is called as soon as the charge is recorded."""
    source = source_of(trips, engine)
    plan.check(source, sure, expect)
    if plan.slicing is not None:
        source = source.sliced(plan.slicing)
    ledger.check(name, plan.epsilon, plan.unit, total, plan.delta)
    began = datetime.now(UTC)  # before any trip is read, so that the release does not reveal how long that takes
    bound, noise = ContributionBound.of(plan.unit, OpenDPNoise().generator()), OpenDPNoise()
    with aggregates_of(plan, source, bound, engine, memory, progress, ledger.sketch_key) as aggregates:
        with stopping.delay_signals():  # so that after an interrupt it is always known whether the charge was made
            spent = ledger.spend(
                name,
                plan.epsilon,
                plan.unit,
                plan.name,
                str(plan.grid),
                total,
                delta=plan.delta,
                sketch=aggregates.sketch,
                sure=sure,
            )
            charged(spent)
        budget = Budget.of(plan.promise, name)
        curator = Curator(
            aggregates, budget, noise, plan.unit, wary=not sure, may_exchange=lambda: ledger.exchange(spent.id)
        )
        try:
            with closing(curator):
                return plan.release(curator, spent.id, bound.salt, source.row_is_trip, began), spent
        except EmptyMapError:  # the curator is closed: it cannot spend what is given back
            ledger.settle(spent.id, curator.spent, "rho" if curator.concentrated else "epsilon")
            raise


def begun(spent: Charge, ledger: Ledger) -> list[str]:
    """Notes for a new name or a new ledger, which may be a mistake that gives trips a second budget."""
    if spent.new_ledger:
        return [f"The ledger {ledger.place} is new. If you had another one before, stop and restore it."]
    if not spent.new_data_set or not spent.others:
        return []
    others = ", ".join(spent.others[:5]) + (", ..." if len(spent.others) > 5 else "")
    return [
        f"{spent.data_set} is a new data set in the ledger, alongside {others}. If these trips were published under "
        "another name, use that name from now on: what was spent under both adds up."
    ]


def source_of(trips: Readable | Source, engine: str) -> Source:
    """The trips as they are read for publishing: rows that cannot be used are left out."""
    if engine == "spark" and isinstance(trips, str | os.PathLike):
        from dqam.engines.spark_session import frame_of

        trips = frame_of(trips)
    return (trips if isinstance(trips, Source) else read(trips)).for_publishing()


@contextmanager
def aggregates_of(
    plan: Plan,
    trips: Readable | Source,
    bound: ContributionBound,
    engine: str = "local",
    memory: int = MEMORY,
    progress: Progress = quiet,
    sketch_key: str | None = None,
) -> Iterator[Aggregates]:
    """Aggregates over the trips that count, wherever they are stored; with a sketch of all trips if there is a key."""
    if bound.unit != plan.unit:
        raise InputError(
            f"Contributions are bounded for {bound.unit.in_words}, but the plan is for {plan.unit.in_words}."
        )
    if engine not in ENGINES:
        raise InputError(f"There is no engine {engine!r}; use one of {', '.join(ENGINES)}.")
    if not isinstance(memory, int):
        raise InputError(f"memory must be a number of bytes, such as 4 << 30; got {memory!r}.")
    source = source_of(trips, engine)
    if source.frame is not None:
        if engine == "duckdb":
            raise InputError(
                "A Spark data frame can be counted only by Spark; write it to files to use engine='duckdb'."
            )
        from dqam.engines.spark import Spark

        with Spark(source, bound, plan.grid, plan.gap, progress=progress, sketch_key=sketch_key) as cluster:
            yield _after_first_scan(cluster, plan)
        return
    if engine == "spark":
        raise InputError(
            f"{source.name} is not a Spark data frame or Parquet files, which Spark needs; use another engine."
        )
    if engine == "duckdb":
        with Disk(
            source, bound, plan.grid, plan.gap, memory, progress=progress, sketch_key=sketch_key
        ) as sorted_points:
            yield _after_first_scan(sorted_points, plan)
        return
    with watching(progress, f"Reading {source.name}", lambda: source.progress):
        whole = source.gathered()
    slices = None if source.slicing is None else len(source.slicing)
    places, per_person = bound.places(whole.persons, whole.ids), bound.per_person(whole.persons)
    kept = None if places is None else places < plan.unit.max_trips
    local = InMemory(walk(whole, plan.grid, plan.gap), kept, plan.unit, slices, per_person, places)
    if sketch_key is not None:
        local.sketch = sketch_of(bound.candidates(whole).summary(), sketch_key)
    yield Aggregates(local)


def _after_first_scan(engine: Engine, plan: Plan) -> Aggregates:
    """Aggregates after the first scan. If it is not known yet which trips count, it only counts those that may."""
    first = [*TripCount().aggregates, *plan.first_scan()]
    aggregates = Aggregates(engine, first[:1] if plan.chooses_max_trips else first)
    if aggregates.value(TripCount())[0] > MOST_TRIPS:
        raise InputError(f"At most {MOST_TRIPS:,} trips can be counted at once; split the data set.")
    return Aggregates(engine, first) if plan.chooses_max_trips else aggregates


def data_set_name(trips: object) -> str:
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
        raise InputError("Name the data set, dataset='...': everything published from it adds up under this name.")
    name = Path(trips).resolve().name  # links resolved, so that a file has one name
    return name.partition(".")[0] or name
