"""The command line, `dqam`: the main command, exit codes, and the handling of errors.

Messages, tables and progress go to standard error, and answers to standard output; with --json, standard output is
exactly one JSON object. Exit codes: 0 done, 1 a check failed, 2 bad input or usage, 3 budget refused. Commands import
slow modules only when they run, so that other commands start at once.
"""

from __future__ import annotations

import logging
import sys
from typing import NoReturn

import click

import dqam
from dqam.cli import analyst, custodian, demo, exact, flows, generate, ledger, research, terminal
from dqam.cli.terminal import in_options, plain, words
from dqam.errors import BudgetError, InputError
from dqam.runtime import stopping


def main() -> NoReturn:
    """Run the command line; bad input is one sentence on standard error and exit code 2."""
    stopping.handle_signals()
    logging.getLogger().addHandler(logging.NullHandler())  # hides what libraries log about interrupts
    try:
        cli.main(prog_name="dqam", standalone_mode=False)
        stopping.check()
    except (click.exceptions.Abort, KeyboardInterrupt):
        words.print(terminal.STOPPED, markup=False)
        sys.exit(130)
    except stopping.Stopped:
        words.print(terminal.STOPPED, markup=False)
        raise
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except InputError as error:
        words.print(f"[bold red]Error:[/] {plain(in_options(str(error)))}", soft_wrap=True)
        sys.exit(3 if isinstance(error, BudgetError) else 2)
    except OSError as error:
        words.print(f"[bold red]Error:[/] {plain(error)}", soft_wrap=True)
        sys.exit(2)
    sys.exit(0)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(dqam.__version__, prog_name="dqam")
def cli() -> None:
    """Publish differentially private maps of trajectory data that anyone can query.

    \b
    Start here:
      dqam demo                                generate a city and publish a map of it
      dqam inspect trips.csv --bounds W S E N  check what dqam reads from your file
      dqam publish trips.csv --bounds W S E N --epsilon 1 --plan
      dqam publish trips.csv --bounds W S E N --epsilon 1 -o map.nc
      dqam query map.nc --area W S E N         distinct trips through a rectangle
      dqam flows map.nc --areas zones.geojson  trips from zone to zone, if published with --flows
      dqam serve map.nc                        the same map in the browser
      dqam reproduce --quick -o results        the paper's experiments
    """


for command in (
    custodian.publish,
    analyst.query,
    flows.flows,
    analyst.export,
    analyst.report,
    analyst.serve,
    ledger.ledger,
    exact.inspect,
    exact.count,
    generate.generate,
    demo.demo,
    research.reproduce,
    research.show_mechanisms,
    research.audit,
):
    cli.add_command(command)
