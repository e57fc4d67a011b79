"""A release: what it answers, and what it says of itself."""

import numpy as np
import pytest

from dqam.mechanisms import MECHANISMS
from tests.release.cases import as_if_private, seeded

PUBLISHABLE = [name for name, row in MECHANISMS.items() if row.publishable]


@pytest.mark.parametrize("mechanism", PUBLISHABLE)
def test_every_mechanism_makes_a_release_whose_ledger_adds_up(mechanism: str) -> None:
    release = seeded(mechanism=mechanism)
    answers = release.cells(blocks=4)
    assert len(answers) == 16
    assert (answers.value >= 0).all()
    assert np.isnan(answers.low).all() == (mechanism != "flux")
    assert sum(entry.epsilon for entry in release.provenance.paid) == 2
    assert str(answers[0])


def test_a_release_from_a_seed_says_so() -> None:
    release = seeded()
    assert release.provenance.promise.startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in release.to_xarray().attrs["title"]
    assert "one trip, epsilon = 2" in as_if_private(release).provenance.promise
