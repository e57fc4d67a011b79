"""Plain values that travel from mechanisms to whoever opens a release: the guarantee, and the uncertainty."""
