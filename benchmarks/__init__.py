"""Measurements of adjoint beside other frameworks; see docs/benchmarks.md."""
