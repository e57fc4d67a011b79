"""A ledger that holds anything unexpected stops all spending."""

from fractions import Fraction
from pathlib import Path

import pytest

from dqam.errors import InputError
from dqam.privacy.ledger import Ledger
from tests.ledgers import run_sql, spend


def test_a_damaged_settlement_stops_all_spending(where: str, ledger: Ledger) -> None:
    ledger.settle(spend(ledger, "taxis", 1, 2).id, Fraction(1, 2))
    run_sql(where, "UPDATE dqam_publications SET settled = '-5'")
    with pytest.raises(InputError, match="is damaged: it has '-5' where an epsilon"):
        spend(ledger, "taxis", 1)


@pytest.mark.parametrize("text", ["", "0.1", "-1/10", "0", "1/0", "1/10 ", "\u0661", "nan", "9" * 400])
@pytest.mark.parametrize("table", ["totals", "publications"])
def test_a_damaged_epsilon_stops_all_spending(tmp_path: Path, text: str, table: str) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    spend(ledger, "porto", "0.1", 1)
    run_sql(str(tmp_path / "ledger.db"), f"UPDATE dqam_{table} SET epsilon = '{text}'")
    for use in (ledger.history, lambda: spend(ledger, "porto", "0.1"), lambda: ledger.set_total("porto", 5)):
        with pytest.raises(InputError, match="is damaged: it has .* where an epsilon"):
            use()


@pytest.mark.parametrize("text", ["", "0.1", "-1/10", "0", "1/0", "nan", "9" * 400])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("data_sets SET delta", "a delta"),
        ("publications SET rho", "a rho"),
        ("publications SET settled", "a rho"),
        ("publications SET rho = NULL, exchanged", "a rho"),
    ],
)
def test_a_damaged_delta_or_rho_stops_all_spending(tmp_path: Path, text: str, place: str, words: str) -> None:
    where = str(tmp_path / "ledger.db")
    ledger = Ledger.open(where)
    id = spend(ledger, "porto", 1, 3, delta=1e-8).id
    run_sql(where, f"UPDATE dqam_{place} = '{text}'")
    check_damaged(ledger, id, f"where {words} such as")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data_sets SET delta = NULL", "porto has a publication with a rho, but no delta"),
        ("data_sets SET delta = '1/2'", "it has a delta of 1/2"),
        ("data_sets SET delta = '1/1" + "0" * 31 + "'", "it has a delta of 1/1"),
        ("publications SET exchanged = rho", "has a rho and was exchanged"),
        ("totals SET epsilon = '1001'", "porto has a total that no budget with a delta can have"),
        ("totals SET epsilon = '1/10000000'", "porto has a total that no budget with a delta can have"),
    ],
)
def test_a_budget_that_cannot_be_stops_all_spending(where: str, ledger: Ledger, change: str, words: str) -> None:
    id = spend(ledger, "porto", 1, 3, delta=1e-8).id
    run_sql(where, f"UPDATE dqam_{change}")
    check_damaged(ledger, id, words)


def test_an_exchange_in_a_pure_data_set_stops_all_spending(where: str, ledger: Ledger) -> None:
    id = spend(ledger, "porto", 1, 3).id
    run_sql(where, "UPDATE dqam_publications SET exchanged = '1/100'")
    check_damaged(ledger, id, "porto has a publication with a rho, but no delta")


def check_damaged(ledger: Ledger, id: str, words: str) -> None:
    """Nothing about the only data set, porto, works."""
    for use in (
        ledger.history,
        lambda: spend(ledger, "porto", "0.1", delta=1e-8),
        lambda: spend(ledger, "porto", "0.1"),
        lambda: ledger.set_total("porto", 5),
        lambda: ledger.exchange(id),
    ):
        with pytest.raises(InputError, match=f"is damaged: .*{words}"):
            use()


def test_other_damage(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.db")
    ledger = Ledger.open(place)
    spend(ledger, "porto", "0.1", 1)
    run_sql(place, "UPDATE dqam_totals SET epsilon = x'ff'")
    with pytest.raises(InputError, match="damaged"):
        ledger.history()
    run_sql(place, "DELETE FROM dqam_totals")
    with pytest.raises(InputError, match="porto has no total"):
        spend(ledger, "porto", "0.1")
    whole = Path(place).read_bytes()
    Path(place).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(InputError, match="malformed"):
        spend(ledger, "porto", "0.1")
    Path(place).unlink()  # a ledger that is gone is not begun anew with all its budget
    with pytest.raises(InputError, match="no such table"):
        spend(ledger, "porto", "0.1")
