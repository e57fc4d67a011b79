"""What goes wrong for a user: one clear sentence with the value that was wrong and a way out."""

from __future__ import annotations


class InputError(ValueError):
    """The data, or what was asked of it, cannot be used as it is. Commands exit with code 2."""


class LeftOutWarning(UserWarning):
    """Rows of a source were not used in a publication, or joined; for the custodian alone."""


class LedgerWarning(UserWarning):
    """A ledger, or a data set in it, is new; this may be a mistake that gives trips a second budget."""


class BudgetError(InputError):
    """More was asked than is left. Commands exit with code 3."""
