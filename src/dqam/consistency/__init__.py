"""Histograms made consistent: no answer shrinks when its rectangle grows, or no edge exceeds its faces."""
