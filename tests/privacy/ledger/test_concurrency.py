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
from dqam.values.conversion import rho_of
from tests.ledgers import TRIP, account, run_sql, spend, trips

RACERS = 8
DELTA = Fraction(1, 10**8)


@pytest.fixture(scope="module")
def context() -> ForkServerContext:
    """Processes that share nothing with this one, and import everything only once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["dqam.privacy.sketch", "dqam.privacy.ledger", "hypothesis", "psycopg", "pytest", "sqlite3"]
    )
    return context


def racer(orders: Connection, start: Barrier) -> None:
    """Carry out orders, all racers at the same moment, and answer with the result or the error."""
    while (order := orders.recv()) is not None:
        where, method, arguments, named = order
        start.wait()
        try:
            orders.send(getattr(Ledger.open(where), method)(*arguments, **named))
        except InputError as error:
            orders.send(error)


Order = tuple[str, list[object], dict[str, object]]  # a method, its arguments, and its named arguments


@pytest.fixture(scope="module")
def race_orders(context: ForkServerContext) -> Iterator[Callable[[str, list[Order]], list[object]]]:
    """Eight processes that carry out one order each at once; a call returns their results and errors, in order."""
    start = context.Barrier(RACERS)
    pipes = [context.Pipe() for _ in range(RACERS)]
    racers = [context.Process(target=racer, args=(far, start), daemon=True) for _, far in pipes]
    for each in racers:
        each.start()

    def start_all(where: str, orders: list[Order]) -> list[object]:
        for order, (near, _) in zip(orders, pipes, strict=True):
            near.send((where, *order))
        answers = []
        for near, _ in pipes:
            assert near.poll(60), "a racer does not answer"
            answers.append(near.recv())
        return answers

    yield start_all
    for near, _ in pipes:
        near.send(None)
    for each in racers:
        each.join(10)


@pytest.fixture(scope="module")
def race(race_orders: Callable[[str, list[Order]], list[object]]) -> Callable[..., list[InputError]]:
    """Eight processes that call the same method at once; a call returns the errors of those that lost.

    In texts, `{racer}` is replaced by the number of the process.
    """

    def start_all(where: str, method: str, *arguments: object, **named: object) -> list[InputError]:
        orders: list[Order] = []
        for racer in range(RACERS):
            own = [each.format(racer=racer) if isinstance(each, str) else each for each in arguments]
            orders.append((method, own, named))
        return [answer for answer in race_orders(where, orders) if isinstance(answer, InputError)]

    return start_all


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


def test_eight_upgrade_version_2_at_once(second: str, race: Callable[..., list[InputError]]) -> None:
    assert race(second, "spend", "taxis", "1/8", TRIP, "flux", "grid") == []
    assert run_sql(second, "SELECT count(*) FROM dqam_secrets") == [(1,)]
    assert account(Ledger.open(second), "taxis").left == Fraction(7, 6)


def test_seven_of_eight_get_their_rho(where: str, race: Callable[..., list[InputError]]) -> None:
    ledger, total, one = Ledger.open(where), rho_of(Fraction(3), DELTA), rho_of(Fraction(1), DELTA)
    assert 7 * one < total < 8 * one
    for turn in range(2):  # the first publication also registers the data set, with its delta
        lost = race(where, "spend", f"city {turn}", 1, TRIP, "flux", "grid", 3, delta=DELTA)
        assert [type(error) for error in lost] == [BudgetError]
        city = account(ledger, f"city {turn}")
        assert (city.delta, len(city.totals), city.left_rho) == (DELTA, 1, total - 7 * one)


def test_both_kinds_race_for_one_budget(where: str, race_orders: Callable[[str, list[Order]], list[object]]) -> None:
    ledger = Ledger.open(where)
    arguments: list[object] = [TRIP, "flux", "grid"]
    for turn in range(2):
        ledger.register(f"city {turn}", 3, "trip", DELTA)
        orders: list[Order] = [("spend", [f"city {turn}", 1, *arguments], {"delta": DELTA})] * 4
        answers = race_orders(where, orders + [("spend", [f"city {turn}", "0.9", *arguments], {})] * 4)
        refused = [type(answer) for answer in answers if isinstance(answer, InputError)]
        assert set(refused) == {BudgetError}
        city = account(ledger, f"city {turn}")
        assert len(city.publications) == RACERS - len(refused)
        assert city.is_covered
        for delta, epsilon in ((DELTA, 1), (None, "0.9")):  # who was refused would be refused in any order after them
            if any(isinstance(answer, InputError) for answer in (answers[:4] if delta else answers[4:])):
                with pytest.raises(BudgetError):
                    spend(ledger, city.name, epsilon, delta=delta)


def test_the_first_of_eight_decides_whether_there_is_a_delta(
    where: str, race_orders: Callable[[str, list[Order]], list[object]]
) -> None:
    ledger = Ledger.open(where)
    for turn in range(3):
        arguments: list[object] = [f"city {turn}", 1, TRIP, "flux", "grid"]
        orders: list[Order] = [("spend", arguments, {"delta": delta}) for delta in [DELTA, None] * 4]
        answers = race_orders(where, orders)
        (winner,) = (racer for racer, answer in enumerate(answers) if not isinstance(answer, InputError))
        (one,) = account(ledger, f"city {turn}").publications
        assert account(ledger, f"city {turn}").delta == (0 if winner % 2 else DELTA)
        assert one.rho == (None if winner % 2 else rho_of(Fraction(1), DELTA))


def test_one_of_eight_exchanges(where: str, race_orders: Callable[[str, list[Order]], list[object]]) -> None:
    ledger = Ledger.open(where)
    for turn in range(2):
        charge = spend(ledger, f"city {turn}", 2, delta=DELTA)
        answers = race_orders(where, [("exchange", [charge.id], {})] * RACERS)
        assert sorted(map(str, answers)) == ["False"] * (RACERS - 1) + ["True"]
        (one,) = account(ledger, f"city {turn}").publications
        assert (one.rho, one.exchanged) == (None, charge.rho)


def test_an_exchange_lets_nobody_in(where: str, race_orders: Callable[[str, list[Order]], list[object]]) -> None:
    """Between a charge in rho and the same charge in epsilon there is no moment at which something is left."""
    ledger = Ledger.open(where)
    for turn in range(3):
        charge = spend(ledger, f"city {turn}", 2, delta=DELTA)
        small: list[object] = [f"city {turn}", "0.001", TRIP, "flux", "grid"]
        spends: list[Order] = [("spend", small, {"delta": delta}) for delta in [DELTA, None, DELTA, None]]
        answers = race_orders(where, [("exchange", [charge.id], {})] * 4 + spends)
        assert sorted(map(str, answers[:4])) == ["False"] * 3 + ["True"]
        assert [type(answer) for answer in answers[4:]] == [BudgetError] * 4
        assert account(ledger, f"city {turn}").left_rho == 0


def test_what_is_delivered_or_settled_first_is_not_exchanged(
    where: str, race_orders: Callable[[str, list[Order]], list[object]]
) -> None:
    ledger, ends = Ledger.open(where), list[object]()
    for turn in range(4):
        charge = spend(ledger, f"city {turn}", 2, delta=DELTA)
        end: Order = ("delivered", [charge.id], {}) if turn % 2 else ("settle", [charge.id, Fraction(1, 10**4)], {})
        answers = race_orders(where, [end, ("exchange", [charge.id], {})] * 4)
        exchanges = answers[1::2]
        (one,) = account(ledger, f"city {turn}").publications
        assert exchanges.count(True) == (one.exchanged is not None)
        assert exchanges.count(False) == 4 - exchanges.count(True)
        assert (one.rho is None) == (one.exchanged is not None)
        ended = one.delivered if turn % 2 else one.settled
        assert ended is not None
        assert not ledger.exchange(charge.id)
        ends.append(ended)
    assert len(ends) == 4


@pytest.mark.parametrize("isolation", ["repeatable%20read", "serializable"])
def test_a_server_with_another_isolation(
    isolation: str, postgresql_url: str, race: Callable[..., list[InputError]]
) -> None:
    where = f"{postgresql_url}&options=-cdefault_transaction_isolation%3D{isolation.replace('%20', '%5C%20')}"
    for turn in range(3):
        lost = race(where, "spend", f"{isolation} {turn}", 1, TRIP, "flux", "grid")
        assert [type(error) for error in lost] == [BudgetError] * (RACERS - 1)


def spender(where: str, name: str, delta: Fraction | None, reports: Connection) -> None:
    """Spend, and report each charge, until killed."""
    ledger = Ledger.open(where)
    while True:
        reports.send(ledger.spend(name, "1/10000", TRIP, "flux", "x" * 5000, 1, delta=delta).id)
        time.sleep(0.005)  # SQLite has no queue: a process that never pauses would keep the others out


def test_what_was_reported_is_recorded_even_after_kill_9(where: str, context: ForkServerContext) -> None:
    ids: set[str] = set()
    moments = random.Random(9)
    for turn in range(3):
        pipes, spenders = [], []
        for i in range(4):
            pipe, far = context.Pipe(duplex=False)
            arguments = (where, f"city {i % 2}", DELTA if i % 2 else None, far)
            spenders.append(context.Process(target=spender, args=arguments, daemon=True))
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
        if city.delta:
            rho = rho_of(Fraction(1, 10_000), DELTA)
            assert city.left_rho == rho_of(Fraction(1), DELTA) - len(city.publications) * rho
        else:
            assert city.spent == Fraction(len(city.publications), 10_000)
        spend(ledger, city.name, city.left, delta=city.delta)
        with pytest.raises(BudgetError):
            spend(ledger, city.name, "1/100" if city.delta else "1/10000", delta=city.delta)
    assert sorted(bool(city.delta) for city in ledger.history()) == [False, True]


def exchanger(where: str, name: str, reports: Connection) -> None:
    """Spend whole budgets of new data sets, exchange them, and report each exchange, until killed."""
    ledger, turn = Ledger.open(where), 0
    while True:
        charge = ledger.spend(f"{name}{'x' * turn}", 1, TRIP, "flux", "x" * 5000, delta=DELTA)
        assert ledger.exchange(charge.id)
        reports.send(charge.id)
        turn += 1
        time.sleep(0.005)


def test_an_exchange_that_was_reported_is_recorded_even_after_kill_9(where: str, context: ForkServerContext) -> None:
    moments, reported = random.Random(9), set[str]()
    pipes, exchangers = [], []
    for name in "abcd":
        pipe, far = context.Pipe(duplex=False)
        exchangers.append(context.Process(target=exchanger, args=(where, name, far), daemon=True))
        exchangers[-1].start()
        far.close()
        pipes.append(pipe)
    reported |= {pipe.recv() for pipe in pipes}
    for each in exchangers:
        time.sleep(moments.uniform(0, 0.1))
        each.kill()
    for each, pipe in zip(exchangers, pipes, strict=True):
        with suppress(EOFError, OSError):
            while True:
                reported.add(pipe.recv())
        each.join()
        assert each.exitcode == -signal.SIGKILL
    ledger = Ledger.open(where)
    ledger.delivered(min(reported))  # waits while the server still commits what the killed processes requested
    recorded = {publication.id: publication for each in ledger.history() for publication in each.publications}
    assert {id for id in reported if recorded[id].exchanged is not None} == reported
    assert len(recorded) - len(reported) <= 4
    rho = rho_of(Fraction(1), DELTA)
    for each in ledger.history():
        (one,) = each.publications
        assert (one.rho, one.exchanged) in ((rho, None), (None, rho))
        assert each.left_rho == 0
