"""Code generation: from kernels to LLVM IR, and from LLVM IR to object code."""
