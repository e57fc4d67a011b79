"""The table of claims."""

from dqam.experiments.claims import MISSING, claims
from dqam.experiments.plan import ExperimentPlan, Settings
from dqam.experiments.results import Results


def test_claims_say_what_is_missing(tiny: Settings) -> None:
    told = claims(ExperimentPlan(tiny, "city", "city-uniform"), Results([]))
    assert len(told) >= 10
    assert sum(claim.measured == MISSING for claim in told) >= 10
    assert all(claim.reported and claim.why for claim in told)
