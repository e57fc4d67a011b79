"""Commands for researchers: reproduce, mechanisms and audit."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import click
from rich.table import Table

from dqam.audit.figure import draw_audit
from dqam.cli.options import PATH, seed_option
from dqam.cli.terminal import answers, json_option, plain, print_json, progress_of, words
from dqam.errors import InputError
from dqam.runtime.threads import cores
from dqam.values.guarantee import Promise

if TYPE_CHECKING:
    from dqam.audit.cases import AuditCase


@click.command()
@click.option("--output", "-o", type=PATH, required=True, help="Folder for the results, the figures and the page.")
@click.option(
    "--quick",
    is_flag=True,
    help="Fewer trips, query sets, resolutions and runs, to finish in minutes instead of overnight.",
)
@click.option("--only", multiple=True, metavar="FIGURE", help="Run only what this figure needs. Repeatable.")
@click.option(
    "--data", type=PATH, help="Folder with the Porto and Melbourne files (see above). Default: a made-up city."
)
@click.option("--runs", type=click.IntRange(1, 1000), help="Runs per point of a figure. Default: 5, 3 with --quick.")
@seed_option("Seed of the trips, queries and noise.")
@click.option("--processes", type=click.IntRange(min=1), help="Number of processes. Default: the number of processors.")
def reproduce(
    output: Path,
    quick: bool,
    only: tuple[str, ...],
    data: Path | None,
    runs: int | None,
    seed: int,
    processes: int | None,
) -> None:
    """Reproduce the experiments of the paper: figures, tables and a page that explains them.

    Every mechanism is compared with exact counts of distinct trips, and the mechanisms as printed in the paper are also
    measured in the paper's own way. Finished runs are kept in the output folder: if a run is interrupted, repeat the
    command to continue. All noise is seeded, so the results are NOT PRIVATE.

    \b
      dqam reproduce --quick -o results              a made-up city; takes a few minutes
      dqam reproduce --data FOLDER -o results-full   Porto and Melbourne, up to 1,000,000 trips; runs overnight
      dqam reproduce --quick --only size --only kld -o results

    FIGURE is size, deviation, queries, resolution, kld, time or claims.

    \b
    The folder for --data must contain four CSV files, compressed with gzip:
      porto_sample.csv.gz     taxi trips in Porto, with the columns of the ECML/PKDD 2015 challenge
                              (TRIP_ID, TAXI_ID, TIMESTAMP, POLYLINE, ...), from Kaggle or UCI
      porto_roads.csv.gz      roads of Porto from OpenStreetMap, with a column "coordinates":
                              [[lon, lat], ...]
      melbourne_nodes.csv.gz  nodes of the MATSim scenario of Melbourne: id, lon, lat, ...
      melbourne_edges.csv.gz  its directed links: from, to, length_m, freespeed_mps, ...
    """
    from dqam.experiments.plan import Settings
    from dqam.experiments.reproduce import StoppedError
    from dqam.experiments.reproduce import reproduce as run_experiments

    settings = replace(Settings.quick() if quick else Settings(), seed=seed)
    if runs is not None:
        settings = replace(settings, runs=runs)
    try:
        page = run_experiments(
            output, settings, only, data, processes or cores(), progress_of, lambda text: words.print(plain(text))
        )
    except StoppedError as stopped:
        words.print(plain(stopped), soft_wrap=True)
        sys.exit(130)
    answers.print(str(page), markup=False, soft_wrap=True)


@click.command("mechanisms")
@json_option
def show_mechanisms(as_json: bool) -> None:
    """List the mechanisms that turn trips into a histogram, with their properties.

    \b
    Aware of data      it adapts to where the trips are
    Aware of queries   it adapts to where the queries are, or fits their average answer
    Consistent         no edge of its histogram exceeds a face beside it (optimal, greedy), or its answers
                       never shrink when a rectangle grows (monotone)
    Publishable        its privacy is proven; the forms as printed in the paper are not private and
                       exist only to reproduce its figures (dqam reproduce)
    """
    from dqam.mechanisms import MECHANISMS

    if as_json:
        rows = {name: {**vars(known), "publishable": known.publishable} for name, known in MECHANISMS.items()}
        print_json({name: {key: row[key] for key in row if key != "make"} for name, row in rows.items()})
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for header in ("Mechanism", "Aware of", "Consistent", "Publishable"):
        table.add_column(header, no_wrap=True)
    table.add_column("What it does")
    for name, known in MECHANISMS.items():
        aware = [word for word, flag in (("data", known.data_aware), ("queries", known.query_aware)) if flag]
        publishable = "[green]yes[/]" if known.publishable else "[red]no[/]"
        table.add_row(name, ", ".join(aware), known.consistent, publishable, known.about)
    answers.print(table)


class AuditCommand(click.Command):
    """A command whose help lists what can be audited, in place of {cases}."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from dqam.audit.cases import (
            DELTA_FAULT_CASES,
            DELTA_MECHANISM_CASES,
            DELTA_QUESTION_CASES,
            FAULT_CASES,
            QUESTION_CASES,
            WHOLE_MECHANISMS,
        )

        lines = ["\b", "Mechanisms:", fill(", ".join([*WHOLE_MECHANISMS, "flux-weak"]), 76, initial_indent="  ")]
        for title, cases in (
            ("Questions (fault-half-NAME is the same question with half the noise):", QUESTION_CASES),
            ("Mechanisms that are broken on purpose:", FAULT_CASES),
            ("Mechanisms whose claim has a delta:", DELTA_MECHANISM_CASES),
            ("Questions whose claim has a delta (fault-half-NAME as above):", DELTA_QUESTION_CASES),
            ("Mechanisms whose claim has a delta and that are broken on purpose:", DELTA_FAULT_CASES),
        ):
            wide = max(23, *map(len, cases))
            lines += ["", "\b", title, *(f"  {name:<{wide}} {case.about}" for name, case in cases.items())]
        self.help = cleandoc(self.help or "").replace("{cases}", "\n".join(lines))
        super().format_help_text(ctx, formatter)


@click.command(cls=AuditCommand)
@click.argument("mechanisms", nargs=-1, required=True, metavar="MECHANISM...")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Epsilon that the mechanism claims.")
@click.option(
    "--delta",
    type=float,
    help="Delta that the mechanism claims. Default: 0.001 for cases whose name ends in -delta, otherwise none.",
)
@click.option(
    "--runs",
    type=int,
    help="Runs on each of two neighbouring data sets. Default: 1,000 to 4,000,000, depending on the mechanism; 10,000 "
    "for your own.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence level for all pairs.")
@seed_option("Seed of the noise and of the adversarial files.")
@click.option("--figure", type=PATH, help="Save a chart of the bounds to this file.")
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    default=5_000,
    show_default=True,
    help="Number of pairs of files for `neighbours`.",
)
@click.option("--spark", is_flag=True, help="Also read the files of `neighbours` with Spark, which is slow.")
@json_option
def audit(
    mechanisms: tuple[str, ...],
    epsilon: float,
    delta: float | None,
    runs: int | None,
    confidence: float,
    seed: int,
    figure: Path | None,
    pairs: int,
    spark: bool,
    as_json: bool,
) -> None:
    """Measure a lower bound on the epsilon of a MECHANISM.

    The mechanism runs many times on adversarial pairs of neighbouring data sets, which differ in one trip or person.
    The more often an event happens on one data set than on the other, the larger epsilon must be. A bound above the
    claim proves a fault, and the exit code is then 1; a bound below the claim proves nothing. The audit covers the
    steps from walks on a grid to answers, with seeded noise.

    \b
      dqam audit privtree --epsilon 0.5
      dqam audit walks-delta --delta 1e-3         a claim with a delta
      dqam audit questions                        every single question, with its noise and with half the noise
      dqam audit all --figure audit.png           everything, including mechanisms that are broken on purpose
      dqam audit mymodule:mechanism --epsilon 2   your own function f(trips, rng) -> outcome
      dqam audit neighbours --pairs 5000          exact comparison of neighbouring files

    With a delta, the bound is on the smallest epsilon for which the mechanism is (epsilon, delta)-private. An audit
    counts events, so delta must be large enough that they happen: 1e-3 is, 1e-8 is not. Questions and
    mechanisms whose names do not end in -delta can be audited with --delta too. With `all` and `questions`, --delta
    applies only to the cases whose names end in -delta.

    With `all` and `questions`, the mechanisms that are broken on purpose must be caught; the exit code is 1 if one is
    not. Whole mechanisms are audited with rounds and trees forced, because they would otherwise spread the few trips of
    an audit evenly. All answers that the curator gave them are audited too.

    `neighbours` needs no samples. It writes pairs of random adversarial files that differ in all rows of one trip or
    person, reads them in every format with every engine, and compares the exact vector of every question with the
    sensitivity that was charged. It is a fault if a pair differs by more, or if only one file is rejected.

    {cases}
    """
    from dqam.audit.cases import CASES, DELTA_QUESTION_CASES, HALVED_CASES, HALVED_DELTA_CASES, QUESTION_CASES
    from dqam.audit.estimate import audit as run_audit

    if mechanisms == ("neighbours",):
        _audit_neighbours(pairs, seed, spark, as_json)
        return
    groups = {
        "all": tuple(CASES),
        "questions": (*QUESTION_CASES, *HALVED_CASES, *DELTA_QUESTION_CASES, *HALVED_DELTA_CASES),
    }
    is_group = len(mechanisms) == 1 and mechanisms[0] in groups
    chosen = {name: _case(name) for name in (groups[mechanisms[0]] if is_group else mechanisms)}
    claims = {name: _claim(name, case, epsilon, delta, is_group) for name, case in chosen.items()}
    rows, results = [], []
    for name, case in chosen.items():
        claim = claims[name]
        with progress_of(f"Auditing {name}") as show:
            result = run_audit(case.make(claim), case.pairs, runs or case.runs, confidence, seed, show, claim.delta)
        worst = max(result.findings, key=lambda finding: finding.epsilon)
        rows.append((name, result.epsilon, case.sound))
        results.append(
            {
                "mechanism": name,
                "epsilon_hat": result.epsilon,
                "delta": float(result.delta),
                "runs": result.runs,
                "pair": worst.pair,
                "event": worst.event,
            }
        )
    failed = [name for name, bound, sound in rows if (bound > epsilon) == (sound or not is_group)]
    deltas = sorted({float(claim.delta) for claim in claims.values()})
    with_delta = f" and delta {' or '.join(f'{each:g}' for each in deltas)}" if any(deltas) else ""
    note = f"claimed epsilon {epsilon:g}{with_delta}, confidence {confidence:g}, seed {seed}"
    if figure:
        draw_audit(rows, epsilon, note, figure)
    if as_json:
        print_json(
            {"epsilon": epsilon, "delta": max(deltas), "confidence": confidence, "audits": results, "failed": failed}
        )
    else:
        table = Table(
            "Mechanism",
            "Epsilon at least",
            "Runs",
            "Verdict",
            "Event that reveals most",
            title=f"Audit: {note}",
            title_justify="left",
        )
        for (name, bound, sound), result_row in zip(rows, results, strict=True):
            verdict = "[red]above its claim[/]" if bound > epsilon else "[green]below its claim[/]"
            if bound == 0:
                verdict = "[yellow]nothing measured; try more runs[/]"
            if not sound and is_group:
                verdict = "[green]caught[/]" if bound > epsilon else "[red]not caught[/]"
            table.add_row(
                name,
                f"{bound:.3f}",
                f"{result_row['runs']:,}",
                verdict,
                f"{result_row['event']} ({result_row['pair']})",
            )
        answers.print(table)
    if failed:
        words.print(f"[bold red]Failed:[/] {', '.join(failed)}", soft_wrap=True)
        sys.exit(1)


def _audit_neighbours(pairs: int, seed: int, spark: bool, as_json: bool) -> None:
    """Compare neighbouring files; print how many pairs were compared, and how they differ."""
    from dqam.audit.neighbours import run_pairs

    engines = ("local", "duckdb", "spark") if spark else ("local", "duckdb")
    with progress_of("Comparing neighbouring files") as show:
        results = run_pairs(pairs, seed, engines, show=show, most=1_000)
    failed = [violation for result in results.values() for violation in result.violations]
    if as_json:
        names = ("format", "engine", "unit")
        rows = [
            {**dict(zip(names, case, strict=True)), **vars(result), "violations": len(result.violations)}
            for case, result in results.items()
        ]
        print_json({"seed": seed, "neighbours": rows, "failed": len(failed)})
    else:
        table = Table("Format", "Engine", "Unit", title=f"Neighbouring files, seed {seed}", title_justify="left")
        for header in ("Pairs", "Changed", "Rejected", "Violations"):
            table.add_column(header, justify="right")
        for case, result in results.items():
            numbers = result.pairs, result.changed, result.rejected, len(result.violations)
            table.add_row(*case, *(f"{number:,}" for number in numbers))
        answers.print(table)
    for what, pair in failed[:3]:
        words.print(plain(f"{what}\n{pair.smallest(what)}"), soft_wrap=True)
    if failed:
        words.print(f"[bold red]Failed:[/] {len(failed):,} pairs reveal a fault.", soft_wrap=True)
        sys.exit(1)


def _claim(name: str, case: AuditCase, epsilon: float, delta: float | None, is_group: bool) -> Promise:
    """The claim that a case is audited for."""
    if case.delta and delta == 0:
        raise InputError(f"The claim of {name} has a delta; give one above 0, or leave --delta out.")
    given = delta if case.delta or not is_group else None
    return Promise.of(epsilon, case.delta if given is None else given)


def _case(name: str) -> AuditCase:
    """What to audit, by its name, or any callable as module:function."""
    from dqam.audit.cases import CASES, AuditCase

    if name in CASES:
        return CASES[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise InputError(f"{name!r} is not known; audit one of {', '.join(CASES)}, or your own module:function.")
    sys.path.insert(0, "")
    try:
        mechanism = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{name} cannot be imported ({error}); give module:function.") from None
    return AuditCase(name, lambda _: mechanism)
