"""CSV files, read column by column."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from adjoint.data.checking import names_of, require_columns
from adjoint.data.datasets.dataset import Dataset
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.columns import source_of
from adjoint.data.sources.files import Paths, paths_of, readable
from adjoint.errors import DataError, InvalidValueError, listed, plural

__all__ = ["CSVDataset"]

_NAME = "CSVDataset"


class CSVDataset(Dataset):
    """The rows of CSV files (RFC 4180), read once.

    A column of integers is int64, one of numbers float64, with NaN for empty fields, and any other one text. In
    training, native code gathers batches of numbers that are only sampled, shuffled, selected and batched (`arrays`).

    Parameters
    ----------
    dataset_files : path or sequence of path
        The files, in order, in UTF-8.
    field_delim : str, default ","
        What separates fields, one character.
    column_names : sequence of str, optional
        Names of the columns; default: those in the first line of each file.
    column_types : dict, optional
        Dtypes by name of the column, in place of those above.
    num_samples : int, optional
        At most how many rows; default: all.
    shuffle : bool, default False
        Whether the order is random, another one in each epoch.
    sampler : Sampler or collection of int, optional
        The order, in place of `shuffle`, `num_samples` and `num_shards`.
    num_shards, shard_id : int, optional
        Keep every `num_shards`-th row from the one with the number `shard_id` on (`DistributedSampler`).

    Raises
    ------
    DataError
        If a file does not exist or is malformed, a line has another number of fields, or a field is not of its
        column's type.
    """

    def __init__(
        self,
        dataset_files: Paths,
        field_delim: str = ",",
        column_names: Sequence[str] | None = None,
        column_types: Mapping[str, object] | None = None,
        num_samples: int | None = None,
        shuffle: bool | None = None,
        sampler: object = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        if not isinstance(field_delim, str) or len(field_delim) != 1:
            raise InvalidValueError(f"{_NAME}: field_delim must be one character, got {field_delim!r}; choose one")
        given = None if column_names is None else names_of(_NAME, "column_names", column_names)
        names: tuple[str, ...] | None = None
        rows: list[list[str]] = []
        for path in paths_of(_NAME, dataset_files):
            header, more = _read(path, field_delim, given)
            if names is not None and header != names:
                raise DataError(
                    f"{_NAME}: all files must have the columns {listed(names, 12)}, {str(path)!r} has "
                    f"{listed(header, 12)}; read it on its own"
                )
            names = header
            rows += more
        found = names or ()
        types = dict(column_types or {})
        require_columns(_NAME, list(types), found)
        columns: dict[str, np.ndarray | list[object]] = {
            name: _column(name, [row[place] for row in rows], types.get(name)) for place, name in enumerate(found)
        }
        picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
        super().__init__(source_of(_NAME, columns, picked))


def _read(path: Path, delimiter: str, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], list[list[str]]]:
    """The names of the columns of a file, and its rows."""
    with readable(_NAME, path, csv.Error, UnicodeDecodeError), path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        header = names or tuple(next(lines, []))
        if names is None:
            names_of(_NAME, f"the first line of {str(path)!r}", header)
        rows = []
        for row in lines:
            if len(row) == len(header):
                rows.append(row)
            elif row:  # an empty line is none
                raise DataError(
                    f"{_NAME}: rows must have {plural(len(header), 'field')}, line {lines.line_num} of {str(path)!r} "
                    f"has {len(row)}; correct it, or choose another field_delim"
                )
        return header, rows


def _column(name: str, fields: list[str], dtype: object) -> np.ndarray:
    """The fields of a column as an array of the given dtype, or of the first that they fit."""
    texts = np.array(fields, np.str_)
    if dtype is not None:
        try:
            return texts.astype(dtype)  # type: ignore[call-overload, no-any-return]
        except (TypeError, ValueError, OverflowError) as error:
            row = next(number for number, text in enumerate(texts) if not _fits(text, dtype))
            raise DataError(
                f"{_NAME}: column {name!r} has the type {dtype}, row {row} has {fields[row]!r}; give another type or "
                "correct the file"
            ) from error
    for kind, empty in ((np.int64, ""), (np.float64, "nan")):
        try:
            return np.where(texts == "", empty, texts).astype(kind)
        except (ValueError, OverflowError):
            continue
    return texts


def _fits(text: np.str_, dtype: object) -> bool:
    try:
        np.array([text]).astype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return False
    return True
