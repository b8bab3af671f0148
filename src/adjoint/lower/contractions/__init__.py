"""Matrix products, convolutions and their gradients: sums of products of two tensors.

`matching` recognizes them and `schedules` picks the loop nest: a register-tiled GEMM, split-K, M-blocked GEMM or inner
products, each with a cost model and a builder (`adjoint.lower.winograd` holds one more).
"""
