"""Passes over the list of kernels of a program, after they are built and fused.

They order kernels, place barriers, coalesce small serial kernels, block the rows of short reductions, and assign arena
memory.
"""
