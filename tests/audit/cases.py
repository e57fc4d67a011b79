"""What tests of audits share."""

from dqam.audit.cases import CASES, REVEALING_PAIRS
from dqam.audit.pairs import ADVERSARIAL_PAIRS, QUANTILE_PAIRS, Pairs

TREES = ("buckets", "privtree")  # need 100,000 runs to be caught, which only `make audit` does
TREES_WITH_DELTA = ("buckets-delta", "privtree-delta")
SLOW_WITH_DELTA = (*TREES_WITH_DELTA, "quadtree-delta")  # are not drawn at once; only `make audit` does many runs


def revealing_pairs(name: str) -> Pairs:
    """The pairs on which a case is tested: few of the usual ones, which are many."""
    pairs = CASES[name].pairs
    if pairs is ADVERSARIAL_PAIRS:
        chosen = ["no trips + one cell", "no trips + longest walk", "few trips + to and fro"]
    else:
        chosen = list(pairs)[-1:] if pairs is QUANTILE_PAIRS else list(pairs)[: 3 if pairs is REVEALING_PAIRS else 1]
    return {pair: pairs[pair] for pair in chosen}
