"""Exceptions and warnings for users; each message names the wrong value and says what to do about it."""

from __future__ import annotations


class InputError(ValueError):
    """The data or the request cannot be used as it is. Commands exit with code 2."""


class LeftOutWarning(UserWarning):
    """Rows of a source were left out of a publication, or joined to others. Only the custodian may see this."""


class LedgerWarning(UserWarning):
    """A ledger, or a data set in it, is new. This may be a mistake that gives trips a second budget."""


class BudgetError(InputError):
    """A request exceeds the privacy budget that is left. Commands exit with code 3."""
