"""What makes answers private: budget, noise, contribution bounding, the curator, and the ledger of all publications."""
