"""Code generation: from kernels to LLVM IR, and from LLVM IR to object code.

`module` and `kernels` emit LLVM IR, `native` runs LLVM, and `targets` lists the CPUs that code is generated for.
"""
