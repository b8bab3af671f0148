"""Lowering: from a graph to an ordered list of kernels and their memory.

`program` is the driver and `context` what all kernel builders share; a kernel builder for each kind of group is in
`elementwise`, `contractions`, `winograd`, `reductions` and `attention`, and the passes around them are in `fusion` and
`schedule`.
"""
