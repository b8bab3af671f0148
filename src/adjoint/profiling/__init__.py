"""The profiler: what each kernel of a step takes, beside what the machine can do; tables, traces and pages of it."""

from adjoint.profiling.machine import Peaks, machine_peaks
from adjoint.profiling.page import page_text
from adjoint.profiling.step import StepProfile, profile_module
from adjoint.profiling.trace import trace_text

__all__ = ["Peaks", "StepProfile", "machine_peaks", "page_text", "profile_module", "trace_text"]
