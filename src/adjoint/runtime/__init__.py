"""The runtime: loads compiled code and runs it. It depends on kernels and programs, never on graphs.

`executable` and `bound` are the entry points, `threads` the pool, `epoch` the native training loop, `cache` the compile
cache.
"""
