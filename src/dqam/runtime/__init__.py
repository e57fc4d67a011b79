"""Low-level tools for the other packages: threads, SIMD, progress bars, signal handling, and atomic file writes."""
