"""Kernels that combine many elements into one, other than contractions.

`reduction` handles sums, products, extremes and argmax, `two_stage` the sums that start in the epilogue of the kernel
that produces their operand, and `scatter` the gradients of gathers.
"""
