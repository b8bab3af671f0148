"""Models of other frameworks as modules, and their weights."""
"""Models and weights of other programs, made into adjoint's modules."""
