"""Profiles of what tensors and compiled functions run: behind `profile` of modules and of compiled functions."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from adjoint.compiler import CompileOptions
from adjoint.ir import Function, IRModule
from adjoint.profiling.machine import Peaks
from adjoint.profiling.step import StepProfile, profile_module

__all__ = ["profile_function"]


def profile_function(
    function: Function,
    arrays: Mapping[str, np.ndarray],
    title: str,
    options: CompileOptions,
    runs: int,
    peaks: Peaks | None = None,
) -> StepProfile:
    """Measure a graph kernel by kernel, on copies of its arrays.

    Parameters
    ----------
    function : Function
        The graph.
    arrays : mapping of str to numpy.ndarray
        Arrays by parameter; others are random.
    title : str
        What is measured.
    options : CompileOptions
        Compile options.
    runs : int
        Number of runs.
    peaks : Peaks, optional
        The machine's limits; default: measured once and stored.
    """
    step = replace(function, name="step")
    return profile_module(IRModule((step,)), title, options, runs, arrays, peaks)
