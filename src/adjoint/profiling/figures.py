"""Numbers and names as tables and the page write them: no more digits than are known."""

import math

__all__ = ["amount", "clipped", "duration", "micros", "part_class", "percent", "pixels", "rate"]


def pixels(value: float) -> str:
    """A length or place without what a pixel does not show."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def part_class(part: str) -> str:
    """The style of a part of the step."""
    return f"p-{part.replace('+', '-')}"


def micros(nanoseconds: float) -> str:
    """A time in microseconds, three digits of it."""
    value = nanoseconds / 1e3
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def duration(nanoseconds: float) -> str:
    """A time in microseconds or milliseconds, with the unit."""
    return f"{micros(nanoseconds)} µs" if nanoseconds < 999_500 else f"{micros(nanoseconds / 1e3)} ms"


def percent(share: float) -> str:
    """A share, two digits of it."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def rate(value: float) -> str:
    """A number of GFLOP/s, GB/s or operations a byte, three digits of it."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def amount(nbytes: float) -> str:
    """Bytes in the unit that fits."""
    for unit in ("bytes", "KB", "MB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if nbytes >= 100 or nbytes == int(nbytes) else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} GB"


def clipped(text: str, width: float, size: float) -> str:
    """As much of a text as fits into `width` pixels at a font size, about."""
    room = math.floor(width / (size * 0.62))
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…" if room > 3 else ""
