"""The functional door: transformations of Python functions of tensors, as in JAX and MindSpore 2."""
