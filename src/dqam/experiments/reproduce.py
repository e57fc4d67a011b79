"""The experiments of the paper from start to finish: data, runs, figures, tables and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from dqam.errors import InputError
from dqam.experiments import figures
from dqam.experiments.claims import claims
from dqam.experiments.datasets import DataSet, generated_file, made_up, real
from dqam.experiments.page import PageContent, deviation_rows, write_page
from dqam.experiments.plan import FIGURES, ExperimentPlan, Settings
from dqam.experiments.protocol import DISTINCT, PAPER, ResultRow, Task
from dqam.experiments.results import Results, save_csv
from dqam.experiments.runner import Parts, Place, chunked, run_all
from dqam.experiments.stamps import code_stamp, stamp_of
from dqam.runtime.files import replacing
from dqam.runtime.progress import Progress, quiet

CURVES = ("size", "queries", "resolution", "kld")
DECIDING = "dqam.experiments.protocol", "dqam.experiments.datasets"  # these and their imports decide the numbers


class StoppedError(Exception):
    """The runs were interrupted; finished ones are saved."""


def reproduce(
    output: Path,
    settings: Settings,
    only: Sequence[str] = (),
    data: Path | None = None,
    processes: int = 1,
    progress: Progress = quiet,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """Do the runs that are missing in `output`, draw the figures, and return the path of the page.

    only  names of FIGURES to run; all if empty. The page also shows other figures that are complete in `output`.
    data  the folder of real data; None for a made-up city
    """
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise InputError(f"There is no figure {unknown[0]!r}; use {', '.join(FIGURES)}.")
    figures.require_matplotlib()
    pair = made_up() if data is None else real(data)
    _claim_folder(output, settings, data)
    plan = ExperimentPlan(settings, pair[0].name, pair[1].name)
    code = code_stamp(*DECIDING)
    keys = {
        task: task.key(stamp_of(code, one.stamp, str(settings.seed)))
        for one in pair
        for task in plan.tasks("claims")
        if task.data == one.name
    }
    parts = Parts(output / "parts")
    rows, others = parts.rows(set(keys.values()))
    if others:
        say(f"{others:,} runs in {parts.folder} are from other code or data and are not used.")
    wanted = {task for name in only or FIGURES for task in plan.tasks(name)}
    missing = [task for task in wanted if keys[task] not in rows]
    try:
        if missing:
            kept = f"; {len(wanted) - len(missing):,} are already done" if len(missing) < len(wanted) else ""
            say(f"{len(missing):,} runs to do{kept}.")
            places = _places(missing, pair, settings.seed, output / "trips", code, progress)
            _run(missing, places, processes, parts, rows, progress)
        complete = [name for name in FIGURES if all(keys[task] in rows for task in plan.tasks(name))]
        return _write(output, plan, pair, Results(rows.values()), complete, settings, code)
    except KeyboardInterrupt:
        done = sum(keys[task] in rows for task in wanted)
        raise StoppedError(
            f"Stopped; {done:,} of {len(wanted):,} runs are kept in {parts.folder}. Repeat the command to continue."
        ) from None


def _claim_folder(output: Path, settings: Settings, data: Path | None) -> None:
    """Make the folder, or refuse one that holds results of other settings."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; give a folder for the results.")
    for folder in (output, output / "parts", output / "trips"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder} cannot be created ({error.strerror}); choose another folder.") from None
    asked = json.loads(
        json.dumps({"settings": asdict(settings), "data": None if data is None else str(data.resolve())})
    )
    file = output / "settings.json"
    if file.exists():
        try:
            before = json.loads(file.read_text())
        except ValueError:
            before = None
        if before != asked:
            raise InputError(
                f"{output} contains results of other settings (see settings.json there); choose another folder, or use "
                "the same settings, seed and data."
            )
        return
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(asked, indent=1) + "\n")


def _places(
    tasks: Sequence[Task], pair: Sequence[DataSet], seed: int, folder: Path, code: str, progress: Progress
) -> dict[tuple[str, int], Place]:
    """The trips of all tasks, made if they do not exist."""
    places = {}
    for one in pair:
        for trips in sorted({task.trips for task in tasks if task.data == one.name}):
            with progress(f"Trips: {one.label(trips)}, {trips:,}") as show:
                path = generated_file(one, trips, seed, folder, show)
            places[one.name, trips] = Place(path, one.bounds, seed, stamp_of(code, one.stamp, str(seed)))
    return places


def _run(
    tasks: Sequence[Task],
    places: dict[tuple[str, int], Place],
    processes: int,
    parts: Parts,
    rows: dict[str, ResultRow],
    progress: Progress,
) -> None:
    """Run the tasks and add the results to `rows`; those that are timed come last, one at a time."""
    before = len(rows)
    with progress("Running") as show:

        def keep(made: list[ResultRow]) -> None:
            parts.save(made)
            rows.update({row.key: row for row in made})
            show((len(rows) - before) / len(tasks))

        run_all(chunked([task for task in tasks if not task.alone], places), processes, keep)
        run_all(chunked([task for task in tasks if task.alone], places), 1, keep)


def _write(
    output: Path,
    plan: ExperimentPlan,
    pair: Sequence[DataSet],
    results: Results,
    complete: Sequence[str],
    settings: Settings,
    code: str,
) -> Path:
    """Write all files of the folder."""
    results.save(output / "results.parquet")
    labels = {
        (spot.data, spot.trips): one.label(spot.trips)
        for one in pair
        for spot in plan.spots("size")
        if spot.data == one.name
    }
    drawn = {}
    for name in complete:
        if name in CURVES:
            drawn.update(_draw(output, plan, name, results, labels))
    if "time" in complete:
        drawn.update(_draw_times(output, plan, results, labels))
    if "deviation" in complete:
        header = ("mechanism", "epsilon", "paper", "as_printed_paper_protocol", "sound_form_distinct")
        save_csv(output / "deviation.csv", header, deviation_rows(plan, results))
    told = claims(plan, results) if "claims" in complete else []
    if told:
        lines = [(claim.about, claim.reported, claim.measured, claim.why) for claim in told]
        save_csv(output / "claims.csv", ("claim", "paper_reports", "measured", "why"), lines)
    quick = settings == replace(Settings.quick(), runs=settings.runs, seed=settings.seed)
    page = output / "index.html"
    write_page(page, plan, pair, results, PageContent(complete, drawn, told, quick, code))
    return page


def _draw(
    output: Path, plan: ExperimentPlan, name: str, results: Results, labels: dict[tuple[str, int], str]
) -> dict[str, Path]:
    """One figure for each protocol; returns the SVG files by name."""
    chosen, drawn = plan.settings, {}
    measure = "kld" if name == "kld" else "error"
    for protocol, suffix, against in (
        (DISTINCT, "", "distinct trips"),
        (PAPER, "-paper", "the paper's protocol"),
    ):
        shown = figures.panels(plan, name, protocol, results, labels)
        if not shown:
            continue
        columns = len(chosen.sizes) if name in ("size", "kld") else min(3, len(shown))
        fixed = [f"{chosen.runs} runs per point"]
        if name in ("queries", "resolution"):
            fixed.insert(0, f"{labels[plan.home.data, plan.home.trips]}, n = {plan.home.trips:,}")
        if name != "queries":
            fixed.append(f"{chosen.queries:,} queries")
        if name != "resolution":
            fixed.append(f"resolution {chosen.resolution}")
        what = "KL divergence of the faces in nats" if name == "kld" else "average error per query"
        path = output / f"{name}{suffix}"
        note = (
            ", ".join(fixed)
            + ". Bars: lowest and highest run. Dashed: may be inconsistent. Seeded noise: not for publication."
        )
        share = name in ("queries", "resolution")
        if name == "kld":
            against = "mechanisms as printed" if suffix else "publishable mechanisms"
        figures.draw_panels(shown, columns, f"{FIGURES[name]}: {against}", what, note, path, share)
        figures.save_points(shown, protocol, measure, path.with_name(path.name + ".csv"))
        drawn[path.name] = path.with_name(path.name + ".svg")
    return drawn


def _draw_times(
    output: Path, plan: ExperimentPlan, results: Results, labels: dict[tuple[str, int], str]
) -> dict[str, Path]:
    names = plan.mechanisms("time", DISTINCT) + plan.mechanisms("time", PAPER)
    if not names:
        return {}
    path = output / "time"
    fixed = f"{plan.settings.queries:,} queries, resolution {plan.settings.resolution}"
    note = f"{fixed}, given the exact counts. Seeded noise: not for publication."
    figures.draw_times(results, plan, labels, names, note, path)
    rows = []
    for protocol, name in figures.timed_lines(names):
        for spot in plan.spots("time"):
            point = results.point(protocol, spot, name, plan.settings.timed_epsilon, measure="seconds", alone=True)
            if point is not None:
                where = (protocol, spot.data, spot.trips, spot.resolution, spot.queries, plan.settings.timed_epsilon)
                rows.append(
                    (
                        *where,
                        name,
                        "seconds",
                        point.mean,
                        point.deviation,
                        point.low,
                        point.high,
                        point.runs,
                        point.rounds,
                    )
                )
    save_csv(output / "time.csv", (*figures.HEADER, *figures.SUMMARY), rows)
    return {"time": path.with_name("time.svg")}
