"""The native support library of compiled code: LLVM text of the barrier, waiting, thread placement and float modes.

Its code depends on the operating system's futex and affinity calls and on the CPU's control registers; compiled
programs and the runtime link it.
"""
