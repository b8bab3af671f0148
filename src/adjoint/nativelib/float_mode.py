"""The floating-point mode of compiled steps: rounding to nearest, subnormal numbers flushed or not.

The mode is private to each thread, and the caller may have changed it. So every thread sets the mode at the start of
its part of a call and restores the previous one at the end. Both are almost free if the mode is already right, as in
the threads of the pool and in the steps of an epoch. Writing the register takes 10 to 20 ns on x86-64.
"""

from adjoint.kernel.target import architecture

__all__ = ["enter_mode", "float_mode_text", "flushes_subnormals", "kernel_attributes"]

#: For each architecture with a mode that flushes subnormal numbers: the type of the control register in LLVM; a mask of
#: its control bits, excluding status flags; the values of these bits with and without flushing.
#:
#: x86-64: MXCSR, all exceptions masked (bits 7 to 12), flush-to-zero (15), denormals-are-zero (6).
#: AArch64: FPCR, FZ (24). 32-bit Arm: FPSCR, FZ (24); its upper four bits and lower eight are flags.
_MODES = {
    "x86_64": ("i32", 0xFFC0, 0x9FC0, 0x1F80),
    "aarch64": ("i64", 0xFFFFFFFF, 1 << 24, 0),
    "arm": ("i32", 0x07FFFF00, 1 << 24, 0),
}

#: LLVM text that reads the register as %old, and text that writes %new to it.
_READ = {
    "x86_64": "%at = alloca i32\n  call void @llvm.x86.sse.stmxcsr(ptr %at)\n  %old = load i32, ptr %at",
    "aarch64": "%old = call i64 @llvm.aarch64.get.fpcr()",
    "arm": "%old = call i32 @llvm.arm.get.fpscr()",
}
_WRITE = {
    "x86_64": "store i32 %new, ptr %at\n  call void @llvm.x86.sse.ldmxcsr(ptr %at)",
    "aarch64": "call void @llvm.aarch64.set.fpcr(i64 %new)",
    "arm": "call void @llvm.arm.set.fpscr(i32 %new)",
}
_DECLARATIONS = {
    "x86_64": "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
    "aarch64": "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
    "arm": "declare i32 @llvm.arm.get.fpscr()\ndeclare void @llvm.arm.set.fpscr(i32)",
}

_TEXT = """
; Set the mode of this thread to `wanted`, and return the previous one.
define internal {type} @enter_float_mode({type} %wanted) nounwind noinline {{
  {read}
  %found = and {type} %old, {control}
  %right = icmp eq {type} %found, %wanted
  br i1 %right, label %done, label %change
change:
  %others = and {type} %old, {others}
  %new = or {type} %others, %wanted
  {write}
  br label %done
done:
  ret {type} %found
}}
{declarations}
"""

_NO_MODE = """
define internal i32 @enter_float_mode(i32 %wanted) nounwind noinline {
  ret i32 0
}
"""


def flushes_subnormals(triple: str) -> bool:
    """Whether the architecture has a mode that flushes subnormal numbers; RISC-V has none."""
    return _family(triple) in _MODES


def float_mode_text(triple: str) -> str:
    """LLVM text of ``@enter_float_mode``, which sets the mode and returns the previous one."""
    family = _family(triple)
    if family not in _MODES:
        return _NO_MODE
    type_, control, _, _ = _MODES[family]
    return _TEXT.format(
        type=type_,
        control=control,
        others=~control & (2 ** int(type_[1:]) - 1),
        read=_READ[family],
        write=_WRITE[family],
        declarations=_DECLARATIONS[family],
    )


def enter_mode(triple: str, flush_subnormals: bool) -> tuple[str, str]:
    """LLVM calls that set a thread's mode, and that restore the previous one, the first call's result ``%mode``."""
    type_, _, flushing, gradual = _MODES.get(_family(triple), ("i32", 0, 0, 0))
    wanted = flushing if flush_subnormals else gradual
    call = f"call {type_} @enter_float_mode({type_}"
    return f"{call} {wanted})", f"{call} %mode)"


def kernel_attributes(triple: str, flush_subnormals: bool) -> str:
    """Attributes of functions that compute, which make LLVM fold constants as in this mode."""
    flushed = flush_subnormals and flushes_subnormals(triple)
    return '"denormal-fp-math"="preserve-sign,preserve-sign"' if flushed else '"denormal-fp-math"="ieee,ieee"'


def _family(triple: str) -> str:
    name = architecture(triple)
    return "arm" if name.startswith(("arm", "thumb")) and name != "arm64" else name
