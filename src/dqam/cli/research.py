"""Commands about the mechanisms: reproduce, mechanisms and audit."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
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
from dqam.values.guarantee import parse_epsilon

if TYPE_CHECKING:
    from dqam.audit.cases import Audited


@click.command()
@click.option("--output", "-o", type=PATH, required=True, help="The folder for results, figures and page.")
@click.option(
    "--quick", is_flag=True, help="Fewer trips, query sets, resolutions and runs: minutes instead of a night."
)
@click.option("--only", multiple=True, metavar="FIGURE", help="Run for this figure alone. Repeatable.")
@click.option("--data", type=PATH, help="Folder with the Porto and Melbourne files.")
@click.option("--runs", type=click.IntRange(1, 1000), help="Runs a point; 5, or 3 with --quick, if not given.")
@seed_option("Of trips, queries and noise.")
@click.option(
    "--processes", type=click.IntRange(min=1), help="How many at once; as many as there are processors if not given."
)
def reproduce(
    output: Path,
    quick: bool,
    only: tuple[str, ...],
    data: Path | None,
    runs: int | None,
    seed: int,
    processes: int | None,
) -> None:
    """Run the experiments of the paper again: figures, tables and one page that explains them.

    Every mechanism is held against distinct trips, and the paper's own forms against the paper's own measure. What
    is done is kept in the folder: the same command goes on where it was stopped, and draws again when all is done.
    Everything is made with seeded noise and is NOT PRIVATE.

    \b
      dqam reproduce --quick -o results                      a made-up city, a few minutes
      dqam reproduce --data ../shared/data -o results-full   Porto and Melbourne up to 1,000,000 trips, a night
      dqam reproduce --quick --only size --only kld -o results

    \b
    FIGURE is size, deviation, queries, resolution, kld, time or claims.
    --data wants porto_sample.csv.gz, porto_roads.csv.gz, melbourne_nodes.csv.gz and melbourne_edges.csv.gz.
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
    """List the mechanisms that turn trips into a histogram, and what each of them knows.

    Aware of data: it looks where trips are; of queries: it looks where they are, or fits their mean answer.
    Consistent: no edge of its histogram is above a face beside it. Publishable: its privacy has a proof; forms "as
    printed" in the paper have none, and are there to reproduce its figures (dqam reproduce).
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


class NamesTheAudited(click.Command):
    """A command whose help says what can be audited, where it has {known}."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from dqam.audit.cases import AUDITED

        every = ", ".join(("all", "questions", "neighbours", *AUDITED))
        known = fill(every, 70, subsequent_indent="    ", break_on_hyphens=False)
        self.help = (self.help or "").replace("{known}", known)
        super().format_help_text(ctx, formatter)


@click.command(cls=NamesTheAudited)
@click.argument("mechanisms", nargs=-1, required=True, metavar="MECHANISM...")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="What the mechanism claims.")
@click.option(
    "--runs",
    type=int,
    help="Runs on each of two neighbouring data sets. Default: as in docs/promise.md; 10,000 for your own mechanism.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence level for all pairs.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--figure", type=PATH, help="Save a chart of the bounds.")
@click.option("--pairs", type=click.IntRange(min=1), default=5_000, show_default=True, help="Pairs for `neighbours`.")
@click.option("--spark", is_flag=True, help="Also run `neighbours` with Spark, which is slow.")
@json_option
def audit(
    mechanisms: tuple[str, ...],
    epsilon: float,
    runs: int | None,
    confidence: float,
    seed: int,
    figure: Path | None,
    pairs: int,
    spark: bool,
    as_json: bool,
) -> None:
    """Measure a lower bound on the epsilon of a MECHANISM, on adversarial pairs of neighbouring data sets.

    The audit covers the steps from walks on a grid to answers, with noise from a seed. A bound above the claim proves a
    fault; the exit code is then 1. With `all` and `questions`, mechanisms that are broken on purpose (fault-... and
    dqam-printed) must be caught; the exit code is 1 if one is not. `questions` stands for all single questions, each
    with its noise and with half of it. fault-half-NAME is NAME with half its noise. Mechanisms are audited with rounds
    and trees forced, because they would otherwise spread the few trips of an audit evenly. Everything that the curator
    told them is audited too.

    \b
      dqam audit privtree --epsilon 0.5
      dqam audit questions                        every single question, with its noise and with half of it
      dqam audit all --figure audit.png           everything, including faults that must be caught
      dqam audit mymodule:mechanism --epsilon 2   your own f(trips, rng) -> outcome
      dqam audit neighbours --pairs 5000          from file to measurement, exactly: see below

    `neighbours` samples no noise. It writes pairs of files that differ in all rows of one trip or person, with random
    adversarial rows, reads them in every format with every engine, and compares the exact vector of every question with
    the sensitivity that was charged. It is a fault if a pair differs by more, or if only one side is refused.

    \b
    Known: {known}
    """
    from dqam.audit.cases import AUDITED, HALVED, QUESTIONS
    from dqam.audit.estimate import audit as run_audit

    if mechanisms == ("neighbours",):
        _audit_neighbours(pairs, seed, spark, as_json)
        return
    claimed = parse_epsilon(epsilon)
    groups = {"all": tuple(AUDITED), "questions": (*QUESTIONS, *HALVED)}
    everything = len(mechanisms) == 1 and mechanisms[0] in groups
    chosen = {name: _audited(name) for name in (groups[mechanisms[0]] if everything else mechanisms)}
    rows, results = [], []
    for name, audited in chosen.items():
        with progress_of(f"Auditing {name}") as show:
            result = run_audit(audited.make(claimed), audited.pairs, runs or audited.runs, confidence, seed, show)
        worst = max(result.findings, key=lambda finding: finding.epsilon)
        rows.append((name, result.epsilon, audited.sound))
        results.append(
            {
                "mechanism": name,
                "epsilon_hat": result.epsilon,
                "runs": result.runs,
                "pair": worst.pair,
                "event": worst.event,
            }
        )
    failed = [name for name, bound, sound in rows if (bound > epsilon) == (sound or not everything)]
    note = f"eps = {epsilon:g}, confidence {confidence:g}, seed {seed}"
    if figure:
        draw_audit(rows, epsilon, note, figure)
    if as_json:
        print_json({"epsilon": epsilon, "confidence": confidence, "audits": results, "failed": failed})
    else:
        table = Table(
            "Mechanism",
            "Measured",
            "Runs",
            "Verdict",
            "Most telling event",
            title=f"Audit, {note}",
            title_justify="left",
        )
        for (name, bound, sound), result_row in zip(rows, results, strict=True):
            verdict = "[red]above its claim[/]" if bound > epsilon else "[green]below its claim[/]"
            if bound == 0:
                verdict = "[yellow]nothing seen: more runs see more[/]"
            if not sound and everything:
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
    """Compare neighbouring files, and show how many pairs were compared and what was found."""
    from dqam.audit.neighbours import run_pairs

    engines = ("local", "duckdb", "spark") if spark else ("local", "duckdb")
    with progress_of("Comparing neighbours") as show:
        counts = run_pairs(pairs, seed, engines, show=show, most=1_000)
    failed = [found for count in counts.values() for found in count.violations]
    if as_json:
        names = ("format", "engine", "unit")
        rows = [
            {**dict(zip(names, case, strict=True)), **vars(count), "violations": len(count.violations)}
            for case, count in counts.items()
        ]
        print_json({"seed": seed, "neighbours": rows, "failed": len(failed)})
    else:
        table = Table("Format", "Engine", "Unit", title=f"Neighbouring files, seed {seed}", title_justify="left")
        for header in ("Pairs", "Moved", "Refused", "Violations"):
            table.add_column(header, justify="right")
        for case, count in counts.items():
            numbers = count.pairs, count.moved, count.refused, len(count.violations)
            table.add_row(*case, *(f"{number:,}" for number in numbers))
        answers.print(table)
    for what, pair in failed[:3]:
        words.print(plain(f"{what}\n{pair.smallest(what)}"), soft_wrap=True)
    if failed:
        words.print(f"[bold red]Failed:[/] {len(failed):,} pairs can be told apart.", soft_wrap=True)
        sys.exit(1)


def _audited(name: str) -> Audited:
    """A mechanism by its name, or any callable as module:function."""
    from dqam.audit.cases import AUDITED, Audited

    if name in AUDITED:
        return AUDITED[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise InputError(f"{name!r} is not known; audit one of {', '.join(AUDITED)}, or module:function.")
    sys.path.insert(0, "")
    try:
        mechanism = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{name} cannot be imported ({error}); give module:function.") from None
    return Audited(name, lambda _: mechanism)
