"""The native support library of compiled code: LLVM text of the barrier, waiting, thread placement and float modes.

It contains everything that makes system calls or accesses control registers; compiled programs and the runtime link it.
"""
