"""What lowering knows about values and kernels before it transforms them.

Inlining turns an element of a value into a kernel expression; access analysis and footprints say what is read from
where, which is what decides about fusion.
"""
