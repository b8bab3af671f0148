"""Instruction set extensions for the arithmetic of training: which a CPU has, and which of them the compiler uses."""

from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass

__all__ = ["Extension", "extensions_of", "features_of"]


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension of an instruction set.

    Parameters
    ----------
    name : str
        As the vendor calls it.
    feature : str
        LLVM's name of the feature.
    use : str, default ""
        What the compiler uses it for; empty if it does not use it.
    """

    name: str
    feature: str
    use: str = ""


#: Extensions by architecture: vectors first, then conversions, and dot products and matrix units of narrow numbers.
_EXTENSIONS = {
    "x86_64": (
        Extension("AVX2", "avx2", "vectors of 256 bits"),
        Extension("FMA", "fma", "multiply-adds"),
        Extension("AVX-512F", "avx512f", "vectors of 512 bits, masked lanes"),
        Extension("F16C", "f16c", "conversion of float16"),
        Extension("AVX512-FP16", "avx512fp16"),
        Extension("AVX512-BF16", "avx512bf16"),
        Extension("AVX512-VNNI", "avx512vnni"),
        Extension("AVX-VNNI", "avxvnni"),
        Extension("AVX-VNNI-INT8", "avxvnniint8"),
        Extension("AMX-TILE", "amx-tile"),
        Extension("AMX-BF16", "amx-bf16"),
        Extension("AMX-FP16", "amx-fp16"),
        Extension("AMX-INT8", "amx-int8"),
    ),
    "aarch64": (
        Extension("NEON", "neon", "vectors of 128 bits, multiply-adds, conversion of float16"),
        Extension("SVE", "sve"),
        Extension("SVE2", "sve2"),
        Extension("FP16", "fullfp16"),
        Extension("BF16", "bf16"),
        Extension("DotProd", "dotprod"),
        Extension("I8MM", "i8mm"),
        Extension("SME", "sme"),
    ),
    "riscv64": (
        Extension("V", "v", "vectors, multiply-adds"),
        Extension("Zfhmin", "zfhmin", "conversion of float16"),
        Extension("Zvfh", "zvfh"),
        Extension("Zvfbfwma", "zvfbfwma"),
    ),
}


def features_of(target: Target) -> frozenset[str]:
    """LLVM's names of the features that a target lists as present."""
    return frozenset(word[1:] for word in target.features.split(",") if word.startswith("+"))


def extensions_of(target: Target) -> dict[Extension, bool]:
    """The extensions of a target's architecture that matter for training, and whether the target lists them."""
    present = features_of(target)
    return {one: one.feature in present for one in _EXTENSIONS.get(target.architecture, ())}
