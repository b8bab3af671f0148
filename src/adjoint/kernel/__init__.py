"""Kernel IR: loop nests over flat buffers, and programs of kernels.

`ir` has the grammar on one screen; the text format, verifier, interpreter and the description of a target surround it.
"""
