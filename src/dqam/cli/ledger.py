"""The commands about the ledger: what was published from each data set, totals, and new data sets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from rich.table import Table

from dqam.cli.options import LEDGER
from dqam.cli.terminal import answers, json_option, plain, print_json
from dqam.errors import InputError
from dqam.values.guarantee import parse_delta, parse_epsilon, spell, spell_delta

if TYPE_CHECKING:
    from fractions import Fraction

    from dqam.privacy.ledger import Account, Ledger, Publication


@click.group(invoke_without_command=True)
@LEDGER
@json_option
@click.pass_context
def ledger(context: click.Context, ledger: str | None, as_json: bool) -> None:
    """Show what was published from each data set and how much of its budget is left.

    \b
      dqam ledger                              all data sets
      dqam ledger register taxis 3             set the total before the first publication
      dqam ledger total taxis 3                set the total to 3; raising it weakens the guarantee
      dqam ledger --ledger postgresql://user@host/database
    """
    from dqam.privacy.ledger import Ledger

    context.obj = Ledger.open(ledger, create=context.invoked_subcommand == "register")
    if context.invoked_subcommand:
        return
    accounts = context.obj.history()
    if as_json:
        print_json(
            {
                "datasets": [
                    {
                        "name": account.name,
                        "unit": account.unit_name,
                        "delta": float(account.delta) or None,
                        "total": float(account.total),
                        "spent": float(account.spent),
                        "left": float(account.left),
                        "left_rho": _number(account.left_rho),
                        "publications": [
                            {
                                "id": one.id,
                                "epsilon": float(one.epsilon),
                                "rho": _number(one.rho),
                                "settled": _number(one.settled),
                                "exchanged": _number(one.exchanged),
                                "mechanism": one.mechanism,
                                "grid": one.grid,
                                "when": one.when,
                                "delivered": one.delivered,
                            }
                            for one in account.publications
                        ],
                    }
                    for account in accounts
                ]
            }
        )
        return
    if not accounts:
        answers.print("Nothing has been published yet.")
    for account in accounts:
        title = f"{plain(account.name)}, for one {account.unit_name}{_at_delta(account)}"
        table = Table(title=title, title_justify="left", box=None)
        for header in ("When (UTC)", "What", "Epsilon"):
            table.add_column(header, justify="right" if header == "Epsilon" else "left")
        events = [(total.when, f"total set to {spell(total.epsilon)}", "") for total in account.totals]
        for one in account.publications:
            state = "" if one.delivered else ", not delivered; spent anyway"
            if one.settled is not None:
                state = f", ended early: {spell(account.epsilon_of(one))} of {spell(one.epsilon)} spent"
            went_on = "" if one.exchanged is None else ", continued without delta"
            events.append((one.when, f"{one.mechanism} on {one.grid}{went_on}{state}", _cost(account, one)))
        for when, what, cost in sorted(events, key=lambda event: event[0]):
            table.add_row(when[:19].replace("T", " "), plain(what), cost)
        table.add_row("", "[bold]left[/]", f"[bold]{spell(account.left)} of {spell(account.total)}[/]")
        answers.print(table)
        if account.delta and account.publications:
            answers.print(
                " With a delta, rhos add up and epsilons do not, so these rows need not add up to the total.",
                soft_wrap=True,
            )


def _number(amount: Fraction | None) -> float | None:
    return None if amount is None else float(amount)


def _at_delta(account: Account) -> str:
    return f", delta = {spell_delta(account.delta)}" if account.delta else ""


def _cost(account: Account, publication: Publication) -> str:
    """The epsilon that a publication cost; where both kinds can occur, a pure one is marked."""
    pure = account.delta and publication.rho is None
    return f"{spell(account.epsilon_of(publication))}{' (pure)' if pure else ''}"


@ledger.command()
@click.argument("name")
@click.argument("epsilon")
@click.option("--sure", is_flag=True, help="Raise the total without asking for confirmation.")
@click.pass_obj
def total(book: Ledger, name: str, epsilon: str, sure: bool) -> None:
    """Set the total epsilon of the data set NAME. The ledger records the change. A higher total must be confirmed."""
    (account,) = book.history(name)
    new = parse_epsilon(epsilon)
    if new > account.total and not sure:
        weaker = (
            f"Raising the total of {account.name} from {spell(account.total)} to {spell(new)} weakens the guarantee "
            "given to the people in the data"
        )
        if not sys.stdin.isatty():
            raise InputError(f"{weaker}; add --sure if that is what you want.")
        if not click.confirm(f"{weaker}. Raise it?", err=True):
            raise InputError(f"The total of {account.name} stays {spell(account.total)}.")
    book.set_total(name, new)
    (account,) = book.history(name)
    left = f"{spell(account.left)} of {spell(account.total)} left"
    answers.print(f"{account.name}: {left}{_at_delta(account)}", markup=False)


@ledger.command()
@click.argument("name")
@click.argument("epsilon")
@click.option(
    "--unit",
    type=click.Choice(["trip", "person"]),
    default="trip",
    show_default=True,
    help="Unit of the privacy guarantee.",
)
@click.option(
    "--delta",
    help="Delta of the budget, such as 1e-8: a tiny probability by which the guarantee is weakened. It cannot be "
    "changed later. Default: none, for a pure budget.",
)
@click.option("--sure", is_flag=True, help="Accept a delta above 1e-6.")
@click.pass_obj
def register(book: Ledger, name: str, epsilon: str, unit: str, delta: str | None, sure: bool) -> None:
    """Register the data set NAME with a total of EPSILON before anything is published from it.

    \b
      dqam ledger register taxis 3 --unit person
      dqam ledger register taxis 3 --delta 1e-8
    """
    from dqam.publishing.plan import check_delta

    if not sure:
        check_delta(parse_delta(delta))
    book.register(name, epsilon, unit, delta)
    (account,) = book.history(name)
    answers.print(f"{name}: total epsilon {epsilon} for one {unit}{_at_delta(account)}", markup=False)
