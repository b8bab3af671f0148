"""Kernel IR: loop nests over flat buffers, and programs of kernels."""
