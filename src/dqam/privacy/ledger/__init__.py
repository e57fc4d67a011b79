"""The ledger: one total privacy budget for each data set, from which every publication of it is paid.

What is charged when:

1. `Ledger.check` charges nothing. It refuses early what `Ledger.spend` would refuse later, except for what depends on
   the trips.
2. `Ledger.spend` charges the whole budget of a publication, or refuses. The charge is one transaction, and it is on
   disk before the method returns. Noise may be drawn only after that.
3. `Ledger.exchange` records that a running publication exchanged its budget with a delta for a pure one.
4. `Ledger.delivered` records that the release was handed over: saved, or returned. The charge stays as it is.
5. `Ledger.settle` records that a publication ended early, without a release. What it had not used is given back.

If the program fails or is killed between 2 and the end, the whole charge stays spent. `Ledger.set_total` changes the
total, on record.

A data set has one of two kinds of budgets, chosen when it is registered or first published. A pure budget is an
epsilon: the epsilons of all publications add up to at most the total. A budget with a delta is an epsilon at that
delta, which never changes. It is accounted for in rho: the rhos of publications with this delta add up, and pure
publications are accepted too (`dqam.privacy.ledger.accounts` has the rules). All amounts are exact fractions.

A data set is identified by its name, where names that look alike are the same, and by sketches of its trips, so that
trips that were published under one name do not get a second budget under another. The ledger is for the custodian only
and never part of a release.
"""

from __future__ import annotations

from dqam.privacy.ledger.accounts import Account, Charge, Publication, Total
from dqam.privacy.ledger.ledger import Ledger
from dqam.privacy.ledger.same_trips import SameTripsError

__all__ = ["Account", "Charge", "Ledger", "Publication", "SameTripsError", "Total"]
