"""The profiler: the time of each kernel of a step compared with the machine's limits, as table, trace or HTML page.

`step` measures, `machine` and `roofline` hold the limits, and the other modules prepare or render the result.
"""

from adjoint.profiling.balance import StepBalance, balance_of, simulate_threads
from adjoint.profiling.machine import Peaks, machine_peaks
from adjoint.profiling.page import page_text
from adjoint.profiling.step import StepProfile, profile_module
from adjoint.profiling.trace import trace_text

__all__ = [
    "Peaks",
    "StepBalance",
    "StepProfile",
    "balance_of",
    "machine_peaks",
    "page_text",
    "profile_module",
    "simulate_threads",
    "trace_text",
]
