"""Code generation: from kernels to LLVM, and from LLVM to object code."""
