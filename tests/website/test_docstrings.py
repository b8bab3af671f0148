"""Docstrings become Markdown that shows what they say."""

from website import docstrings


def test_sections_are_lists_of_names():
    text = """Scale ``x * 2``, or `y`.

Applies to a*b and [1, 2]::

    x = a * b  # <as it is>

Parameters
----------
x, y : int, default 3
    What is scaled.

Raises
------
ValueError
    If it is not."""
    assert (
        docstrings.rendered(text)
        == r"""Scale `x * 2`, or `y`.

Applies to a\*b and \[1, 2\]:

    x = a * b  # <as it is>

**Parameters**

- `x, y` : int, default 3

    What is scaled.

**Raises**

- `ValueError`

    If it is not."""
    )


def test_the_summary_is_the_first_paragraph_in_one_line():
    def function():
        """Return ``a | b`` of
        two sets.

        More about it.
        """

    assert docstrings.summary(function) == r"Return `a \| b` of two sets."
