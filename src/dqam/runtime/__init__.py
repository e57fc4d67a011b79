"""The machine beneath: threads, SIMD, progress, stopping, and files that appear whole or not at all."""
