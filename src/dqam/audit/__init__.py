"""Measured lower bounds on epsilon, and exact comparisons of neighbouring files."""
