"""Benchmarks of the package, relative to a lower bound, other libraries and plain Python code."""
