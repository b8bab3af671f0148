"""Winograd's minimal filtering algorithm for convolutions and for the gradients of their weights.

`algorithm` derives the transform matrices and applies them to expressions; the other modules plan and build the kernels
around them.
"""
