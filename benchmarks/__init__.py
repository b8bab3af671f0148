"""Benchmarks of adjoint and other frameworks; see docs/benchmarks.md."""
