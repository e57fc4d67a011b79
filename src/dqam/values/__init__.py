"""Plain values that mechanisms attach to a release: its privacy guarantee and the uncertainty of its answers."""
