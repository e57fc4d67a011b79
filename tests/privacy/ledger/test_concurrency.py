"""However many processes spend at once, and whenever they die, no more than the total is spent."""

import multiprocessing
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier

import pytest

from dqam.errors import BudgetError, InputError
from dqam.privacy.ledger import Ledger, SameTripsError
from tests.ledgers import TRIP, account, run_sql, spend, trips

RACERS = 8


@pytest.fixture(scope="module")
def context() -> ForkServerContext:
    """Processes that share nothing with this one, and import everything only once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["dqam.privacy.sketch", "dqam.privacy.ledger", "hypothesis", "psycopg", "pytest", "sqlite3"]
    )
    return context


def racer(orders: Connection, start: Barrier) -> None:
    """Carry out orders, all racers at the same moment, and answer with the error, if any."""
    while (order := orders.recv()) is not None:
        where, method, arguments, named = order
        start.wait()
        try:
            getattr(Ledger.open(where), method)(*arguments, **named)
            orders.send(None)
        except InputError as error:
            orders.send(error)


@pytest.fixture(scope="module")
def race(context: ForkServerContext) -> Iterator[Callable[..., list[InputError]]]:
    """Eight processes that call the same method at once; a call returns the errors of those that lost.

    In texts, `{racer}` is replaced by the number of the process.
    """
    start = context.Barrier(RACERS)
    pipes = [context.Pipe() for _ in range(RACERS)]
    racers = [context.Process(target=racer, args=(far, start), daemon=True) for _, far in pipes]
    for each in racers:
        each.start()

    def start_all(where: str, method: str, *arguments: object, **named: object) -> list[InputError]:
        for racer, (near, _) in enumerate(pipes):
            own = [each.format(racer=racer) if isinstance(each, str) else each for each in arguments]
            near.send((where, method, own, named))
        answers = []
        for near, _ in pipes:
            assert near.poll(60), "a racer does not answer"
            answers.append(near.recv())
        return [answer for answer in answers if answer is not None]

    yield start_all
    for near, _ in pipes:
        near.send(None)
    for each in racers:
        each.join(10)


def test_one_of_eight_gets_the_last_budget(where: str, race: Callable[..., list[InputError]]) -> None:
    ledger = Ledger.open(where)
    for turn in range(5):
        name = f"city {turn}"
        spend(ledger, name, 1, 2)
        lost = race(where, "spend", name, 1, TRIP, "flux", "grid")
        assert [type(error) for error in lost] == [BudgetError] * (RACERS - 1)
        assert account(ledger, name).left == 0


def test_one_of_eight_gets_a_data_set_nobody_knew(where: str, race: Callable[..., list[InputError]]) -> None:
    for turn in range(5):  # in the first nobody has made the tables either
        lost = race(where, "spend", f"city {turn}", "0.3", TRIP, "flux", "grid", "0.5")
        assert [type(error) for error in lost] == [BudgetError] * (RACERS - 1)
        lost = race(where, "register", f"town {turn}", 1, "trip")
        assert len(lost) == RACERS - 1
        assert all("in the ledger already" in str(error) for error in lost)
    assert len(Ledger.open(where).history()) == 10
    for each in Ledger.open(where).history():
        assert (len(each.totals), each.spent) == ((1, Fraction(3, 10)) if each.name.startswith("city") else (1, 0))


def test_all_of_eight_where_there_is_enough(where: str, race: Callable[..., list[InputError]]) -> None:
    assert race(where, "spend", "porto", "1/8", TRIP, "flux", "grid", 1) == []
    assert account(Ledger.open(where), "porto").left == 0


def test_one_of_eight_names_gets_the_same_trips(where: str, race: Callable[..., list[InputError]]) -> None:
    ledger = Ledger.open(where)
    for turn in range(3):
        sketch = trips(ledger, 1_000 * turn, 1_000 * (turn + 1))
        lost = race(where, "spend", f"city {turn} of {{racer}}", 1, TRIP, "flux", "grid", sketch=sketch)
        assert [type(error) for error in lost] == [SameTripsError] * (RACERS - 1)
        assert len(ledger.history()) == turn + 1
        (winner,) = {error.other for error in lost if isinstance(error, SameTripsError)}
        assert account(ledger, winner).spent == 1


def test_one_of_eight_settles(where: str, race: Callable[..., list[InputError]]) -> None:
    ledger = Ledger.open(where)
    spent = spend(ledger, "porto", 1)
    assert len(race(where, "settle", spent.id, Fraction(1, 3))) == RACERS - 1
    assert account(ledger, "porto").left == Fraction(2, 3)


def test_eight_upgrade_at_once(old: str, race: Callable[..., list[InputError]]) -> None:
    assert race(old, "spend", "taxis", "1/8", TRIP, "flux", "grid") == []
    assert run_sql(old, "SELECT count(*) FROM dqam_secrets") == [(1,)]
    assert account(Ledger.open(old), "taxis").left == Fraction(3, 2)


@pytest.mark.parametrize("isolation", ["repeatable%20read", "serializable"])
def test_a_server_with_another_isolation(
    isolation: str, postgresql_url: str, race: Callable[..., list[InputError]]
) -> None:
    where = f"{postgresql_url}&options=-cdefault_transaction_isolation%3D{isolation.replace('%20', '%5C%20')}"
    for turn in range(3):
        lost = race(where, "spend", f"{isolation} {turn}", 1, TRIP, "flux", "grid")
        assert [type(error) for error in lost] == [BudgetError] * (RACERS - 1)


def spender(where: str, name: str, reports: Connection) -> None:
    """Spend, and report each charge, until killed."""
    ledger = Ledger.open(where)
    while True:
        reports.send(ledger.spend(name, "1/10000", TRIP, "flux", "x" * 5000, 1).id)
        time.sleep(0.005)  # SQLite has no queue: a process that never pauses would keep the others out


def test_what_was_reported_is_recorded_even_after_kill_9(where: str, context: ForkServerContext) -> None:
    ids: set[str] = set()
    moments = random.Random(9)
    for turn in range(3):
        pipes, spenders = [], []
        for i in range(4):
            pipe, far = context.Pipe(duplex=False)
            spenders.append(context.Process(target=spender, args=(where, f"city {i % 2}", far), daemon=True))
            spenders[-1].start()
            far.close()
            pipes.append(pipe)
        ids |= {pipe.recv() for pipe in pipes}  # all of them are spending
        for each in spenders:
            time.sleep(moments.uniform(0, 0.1))
            each.kill()
        for each, pipe in zip(spenders, pipes, strict=True):
            with suppress(EOFError, OSError):  # everything that it reported
                while True:
                    ids.add(pipe.recv())
            each.join()
            assert each.exitcode == -signal.SIGKILL
        ledger = Ledger.open(where)
        ledger.delivered(min(ids))  # waits while the server still commits what the killed processes requested
        recorded = {publication.id for each in ledger.history() for publication in each.publications}
        assert ids <= recorded
        assert len(recorded - ids) <= 4 * (turn + 1)  # charged, but not yet reported
        if "://" not in where:
            assert run_sql(where, "PRAGMA integrity_check") == [("ok",)]
    for city in ledger.history():
        assert city.spent == Fraction(len(city.publications), 10_000)
        spend(ledger, city.name, city.left)
        with pytest.raises(BudgetError):
            spend(ledger, city.name, "1/10000")
