"""Kernels that combine many elements into one, other than contractions.

`reduction` handles sums, products, extremes and argmax, and `partition` cuts the axes that few results reduce into
parts. `two_stage` handles the sums that start in the epilogue of the kernel that produces their operand, and `scatter`
the gradients of gathers.
"""
