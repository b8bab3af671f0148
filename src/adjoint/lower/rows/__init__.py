"""Rows and small matrices that are each computed by a sequential algorithm: sorting, scattering, factorizations.

`kernel` distributes rows to threads; `workspace` has what the algorithms share.
"""
