"""The import paths of other frameworks, so that training code written for them runs with only its imports changed.

Each package here has the modules, names, argument orders and defaults of one framework, and no logic of its own: what
is computed, and how, is adjoint's. `import adjoint.compat.torch as torch` and so on. `uncovered` refuses the names that
are not covered, with what to use instead, and `covered` lists those that are.
"""
