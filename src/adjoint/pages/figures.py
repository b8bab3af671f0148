"""Formatting of numbers and names in tables and on pages, without insignificant digits."""

import math

__all__ = ["amount", "clipped", "duration", "micros", "part_class", "percent", "pixels", "rate", "signed_micros"]


def pixels(value: float) -> str:
    """A length or coordinate, rounded to what a pixel can show."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def part_class(part: str) -> str:
    """The CSS class of a part of the step."""
    return f"p-{part.replace('+', '-')}"


def micros(nanoseconds: float) -> str:
    """A time in microseconds, with three digits."""
    value = nanoseconds / 1e3
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def signed_micros(nanoseconds: float) -> str:
    """A time in microseconds that may be negative, with three digits."""
    return f"-{micros(-nanoseconds)}" if nanoseconds < 0 else micros(nanoseconds)


def duration(nanoseconds: float) -> str:
    """A time in microseconds or milliseconds, with the unit."""
    return f"{micros(nanoseconds)} µs" if nanoseconds < 999_500 else f"{micros(nanoseconds / 1e3)} ms"


def percent(share: float) -> str:
    """A fraction as a percentage, with two digits."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def rate(value: float) -> str:
    """A number of GFLOP/s, GB/s or operations per byte, with three digits."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def amount(nbytes: float) -> str:
    """A number of bytes in a suitable unit."""
    for unit in ("bytes", "KB", "MB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if nbytes >= 100 or nbytes == int(nbytes) else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} GB"


def clipped(text: str, width: float, size: float) -> str:
    """As much of a text as approximately fits into `width` pixels at a font size."""
    room = math.floor(width / (size * 0.62))
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…" if room > 3 else ""
