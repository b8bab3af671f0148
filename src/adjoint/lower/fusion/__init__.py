"""Fusion, before and after kernels are built.

`groups` partitions the values of a graph into kernels; the other modules merge kernels that are already built, side by
side (horizontal fusion) or producer into consumer (`compute_at` and row by row).
"""
