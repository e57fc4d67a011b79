"""What tests of audits share."""

from dqam.audit.cases import CASES
from dqam.audit.pairs import ADVERSARIAL_PAIRS, QUANTILE_PAIRS, Pairs

TREES = ("buckets", "privtree")  # need 100,000 runs to be caught, which only `make audit` does


def revealing_pairs(name: str) -> Pairs:
    """The pairs on which a case is tested: few of the usual ones, which are many."""
    pairs = CASES[name].pairs
    if pairs is ADVERSARIAL_PAIRS:
        chosen = ["no trips + one cell", "no trips + longest walk", "few trips + to and fro"]
    else:
        chosen = list(pairs)[-1:] if pairs is QUANTILE_PAIRS else list(pairs)[:1]
    return {pair: pairs[pair] for pair in chosen}
