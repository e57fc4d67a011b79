"""Audits of privacy: statistical lower bounds on epsilon, and exact comparisons of neighbouring files."""
