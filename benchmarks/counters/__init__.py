"""Counters of instructions: each counts what a run executes, in its own way.

A counter is made before the step is compiled; ``count(run)`` runs something and returns a `Count`. Making one where
it cannot work raises `NoCounterError`, whose message says what to do.
"""

from benchmarks.counters.base import Count, NoCounterError

__all__ = ["Count", "NoCounterError"]
