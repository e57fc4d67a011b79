"""The privacy layer: budget, noise, contribution bounding, the curator, and the ledger of all publications."""
