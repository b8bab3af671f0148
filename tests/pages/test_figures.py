"""Numbers and names as the page writes them."""

import pytest

from adjoint.pages.figures import amount, clipped, duration, micros, part_class, percent, pixels, rate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (micros(1_234_567), "1,235"), (micros(12_345), "12.3"), (micros(1_234), "1.23"), (micros(123), "0.123"),
        (duration(999_000), "999 µs"), (duration(1_500_000), "1.50 ms"), (duration(12_345), "12.3 µs"),
        (percent(0.377), "38%"), (percent(0.0996), "10%"), (percent(0.0123), "1.2%"), (percent(0.0), "0.0%"),
        (rate(1234.5), "1,234"), (rate(99.96), "100"), (rate(45.67), "45.7"), (rate(1.234), "1.23"),
        (amount(0), "0 bytes"), (amount(1023), "1023 bytes"), (amount(1536), "1.5 KB"), (amount(32768), "32 KB"),
        (amount(3 << 20), "3 MB"), (amount(5 << 30), "5.00 GB"),
        (clipped("short", 100, 10), "short"), (clipped("something long", 50, 10), "somethi…"),
        (clipped("abcd", 5, 10), ""),
        (pixels(1.5), "1.5"), (pixels(2.0), "2"), (pixels(10), "10"), (pixels(0.126), "0.13"),
        (part_class("backward+update"), "p-backward-update"),
    ],
)  # fmt: skip
def test_text(text, expected):
    assert text == expected
