"""Instruction counters: different ways to count the instructions that a run executes.

A counter is created before the step is compiled; ``count(run)`` executes a function and returns a `Count`. If a counter
does not work on this machine, creating it raises a `NoCounterError`, whose message says what to do.
"""

from benchmarks.counters.base import Count, NoCounterError

__all__ = ["Count", "NoCounterError"]
