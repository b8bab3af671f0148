"""Sources that read files: idx, text lines, CSV, Parquet, and images in folders."""

import gzip
import os

import numpy as np
import pytest

from adjoint.data import CSVDataset, IdxDataset, ImageFolderDataset, ParquetDataset, TextFileDataset
from adjoint.errors import DataError, InvalidValueError, NameLookupError, TypeRuleError


def lists(dataset, epoch=0, start=0):
    return [tuple(np.asarray(value).tolist() for value in row) for row in dataset.epoch(epoch, start)]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, content):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


#: Three images of 1 x 2 pixels and their labels, by the description of the format.
IMAGES = bytes([0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6])
LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])


def test_rows_of_idx_files():
    write("images", IMAGES)
    write("labels.gz", gzip.compress(LABELS))
    data = IdxDataset({"image": "images", "label": "labels.gz"})
    assert lists(data) == [([[1, 2]], 7), ([[3, 4]], 8), ([[5, 6]], 9)]
    assert [table.array.dtype for table in data.batch(2).arrays().tables] == [np.uint8, np.uint8]
    assert lists(IdxDataset({"label": "labels.gz"}, num_shards=2, shard_id=1)) == [(8,), (7,)]


def test_lines_of_text_files():
    write("a.txt", "one\r\ntwo – zwei\n\nlast")
    write("empty.txt", "")
    write("b.txt", "three\n")
    data = TextFileDataset(["a.txt", "empty.txt", "b.txt"])
    assert lists(data) == [("one",), ("two – zwei",), ("",), ("last",), ("three",)]
    assert lists(data, start=3) == [("last",), ("three",)]
    shuffled = TextFileDataset(["a.txt", "b.txt"], shuffle=True)
    assert sorted(lists(shuffled)) == sorted(lists(data))
    assert lists(shuffled) != lists(shuffled, 1)


def test_columns_of_csv_files():
    write("a.csv", '\ufeffn,x,name,big\n1,0.5,"a, ""b""",99999999999999999999\n\n-2,,"two\nlines",1\n')
    write("b.csv", "n,x,name,big\n3,1e3,c,2\n")
    n, x, name, big = next(CSVDataset(["a.csv", "b.csv"]).batch(3).epoch(0))
    assert n.dtype == np.int64
    assert n.tolist() == [1, -2, 3]
    assert x.dtype == np.float64
    assert np.array_equal(x, [0.5, np.nan, 1000], equal_nan=True)
    assert name.tolist() == ['a, "b"', "two\nlines", "c"]
    assert big.tolist() == [1e20, 1, 2]


def test_csv_files_with_other_names_and_types():
    write("a.csv", "1;2\n3;4\n")
    data = CSVDataset("a.csv", ";", ["a", "b"], {"a": "float32"}).batch(2)
    assert data.output_types() == [np.float32, np.int64]
    assert lists(data) == [([1, 3], [2, 4])]
    assert data.arrays() is not None
    write("none.csv", "a,b\n")
    assert lists(CSVDataset("none.csv")) == []


def test_images_of_classes():
    write("in/dog/2.ppm", b"P6\n# a comment\n2 1\n255\n" + bytes(range(6)))
    write("in/cat/1.pgm", b"P5 1 2 255 " + bytes([7, 8]))
    write("in/cat/more/3.PGM", b"P5 1 1 255\n" + bytes([9]))
    write("in/cat/notes.txt", "none")
    os.makedirs("in/empty")
    np.save("in/dog/1.npy", np.float32([[0.5]]))
    data = ImageFolderDataset("in")
    assert data.class_indexing == {"cat": 0, "dog": 1, "empty": 2}
    assert lists(data) == [
        ([[[7, 7, 7]], [[8, 8, 8]]], 0),
        ([[[9, 9, 9]]], 0),
        ([[0.5]], 1),
        ([[[0, 1, 2], [3, 4, 5]]], 1),
    ]
    assert data.get_col_names() == ["image", "label"]
    chosen = ImageFolderDataset("in", class_indexing={"dog": 5}, extensions=[".ppm"], decode=False)
    assert lists(chosen) == [(list(b"P6\n# a comment\n2 1\n255\n" + bytes(range(6))), 5)]
    assert lists(ImageFolderDataset("in", num_parallel_workers=2, sampler=[3, 0])) == [lists(data)[3], lists(data)[0]]


def test_images_of_other_formats():
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    os.makedirs("in/a")
    image.fromarray(pixels).save("in/a/x.png")
    write("in/a/y.png", b"\x89PNG\r\n\x1a\nrubbish")
    data = ImageFolderDataset("in")
    assert lists(data.take(1)) == [(pixels.tolist(), 0)]
    with pytest.raises(DataError, match=r"ImageFolderDataset: 'in/a/y.png' cannot be read \(cannot identify image"):
        lists(data)


def test_parquet_files():
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"n": [1, 2], "x": [0.5, None], "s": ["a", "bc"], "pair": [[1, 2], [3, 4]], "list": [[1], []]}
    parquet.write_table(pyarrow.table(table), "a.parquet")
    data = ParquetDataset("a.parquet")
    assert np.isnan(lists(data)[1][1])
    assert lists(data.project(["n", "s", "pair", "list"])) == [(1, "a", [1, 2], [1]), (2, "bc", [3, 4], [])]
    both = ParquetDataset(["a.parquet", "a.parquet"], ["pair", "n"]).batch(4)
    assert lists(both) == [([[1, 2], [3, 4], [1, 2], [3, 4]], [1, 2, 1, 2])]
    assert both.arrays() is not None
    write("bad.parquet", "PAR1")
    with pytest.raises(DataError, match=r"ParquetDataset: 'bad.parquet' is malformed \(.*\); correct it or fetch it"):
        ParquetDataset("bad.parquet")


def test_missing_extras_are_named(monkeypatch):
    write("a.parquet", "")
    write("in/a/x.png", "")
    monkeypatch.setattr("adjoint.data.sources.parquet.find_spec", lambda _name: None)
    monkeypatch.setattr("adjoint.data.sources.image_files.find_spec", lambda _name: None)
    with pytest.raises(InvalidValueError) as caught:
        ParquetDataset("a.parquet")
    assert caught.value.message == (
        "Parquet files require pyarrow, which is not installed; run pip install 'adjoint[parquet]'"
    )
    with pytest.raises(InvalidValueError) as caught:
        lists(ImageFolderDataset("in"))
    assert caught.value.message == (
        "ImageFolderDataset: images such as 'x.png' require Pillow, which is not installed; run pip install "
        "'adjoint[images]'"
    )


@pytest.mark.parametrize(
    ("files", "make", "error", "message"),
    [
        (
            {},
            lambda: TextFileDataset("none.txt"),
            DataError,
            "TextFileDataset: there is no file 'none.txt'; correct the path",
        ),
        (
            {},
            lambda: TextFileDataset(3),
            TypeRuleError,
            "TextFileDataset takes the path of a file or a list of paths, got 3; pass one",
        ),
        (
            {"a.txt": b"good\nb\xe4d\n"},
            lambda: lists(TextFileDataset("a.txt")),
            DataError,
            "TextFileDataset: files must be UTF-8, line 2 of 'a.txt' has the byte 0xe4; convert the file",
        ),
        (
            {"a": IMAGES, "b": LABELS[:-1]},
            lambda: IdxDataset({"a": "a", "b": "b"}),
            DataError,
            "the header of b promises 11 bytes for shape (3,), got 10; fetch the file again",
        ),
        (
            {"a.gz": gzip.compress(LABELS)[:-9]},
            lambda: IdxDataset({"a": "a.gz"}),
            DataError,
            "a.gz is truncated or no gzip file (Compressed file ended before the end-of-stream marker was reached); "
            "fetch the file again",
        ),
        (
            {},
            lambda: IdxDataset("a"),
            TypeRuleError,
            "IdxDataset takes a dict of paths by name of the column, got a str; pass one such as "
            '{"image": "train-images-idx3-ubyte"}',
        ),
        (
            {"a.csv": "x,y\n1,2\n3\n"},
            lambda: CSVDataset("a.csv"),
            DataError,
            "CSVDataset: rows must have 2 fields, line 3 of 'a.csv' has 1; correct it, or choose another field_delim",
        ),
        (
            {"a.csv": "x,y\n1,2\n", "b.csv": "x,z\n1,2\n"},
            lambda: CSVDataset(["a.csv", "b.csv"]),
            DataError,
            "CSVDataset: all files must have the columns x, y, 'b.csv' has x, z; read it on its own",
        ),
        (
            {"a.csv": "x\n1\nb\n"},
            lambda: CSVDataset("a.csv", column_types={"x": "int32"}),
            DataError,
            "CSVDataset: column 'x' has the type int32, row 1 has 'b'; give another type or correct the file",
        ),
        (
            {"a.csv": 'x\n"1\n'},
            lambda: CSVDataset("a.csv"),
            DataError,
            "CSVDataset: 'a.csv' is malformed (unexpected end of data); correct it or fetch it again",
        ),
        (
            {"a.csv": "x\n1\n"},
            lambda: CSVDataset("a.csv", column_types={"y": "int32"}),
            NameLookupError,
            "CSVDataset: there is no column 'y', the columns are x; name one",
        ),
        (
            {},
            lambda: ImageFolderDataset("in"),
            DataError,
            "ImageFolderDataset: there is no folder 'in'; correct the path",
        ),
        (
            {"in/a/x.txt": ""},
            lambda: ImageFolderDataset("in", extensions=[".png"]),
            DataError,
            "ImageFolderDataset: 'in' must have folders with images (.png), got none; put the images of each class "
            "into a folder",
        ),
        (
            {"in/a/x.ppm": "P6 2 2 255 abc"},
            lambda: lists(ImageFolderDataset("in")),
            DataError,
            "ImageFolderDataset: 'in/a/x.ppm' must have 12 bytes for 2 x 2 pixels, got 3; fetch it again",
        ),
        (
            {"in/a/x.pgm": "P2 1 1 255 1"},
            lambda: lists(ImageFolderDataset("in")),
            DataError,
            "ImageFolderDataset: PPM and PGM files must be binary (P6 or P5) with values up to 255, 'in/a/x.pgm' is "
            "not; convert it",
        ),
        (
            # A pickle that would run code: it is refused before it is read.
            {"in/a/x.npy": b"cos\nsystem\n(S'touch evil'\ntR."},
            lambda: lists(ImageFolderDataset("in")),
            DataError,
            "ImageFolderDataset: 'in/a/x.npy' is malformed (This file contains pickled (object) data. If you trust the "
            "file you can load it unsafely using the `allow_pickle=` keyword argument or `pickle.load()`.); correct it "
            "or fetch it again",
        ),
    ],
)
def test_what_is_refused(files, make, error, message):
    for name, content in files.items():
        write(name, content)
    with pytest.raises(error) as caught:
        make()
    if "pickled" in message:  # the words are NumPy's
        assert not os.path.exists("evil")
        message = caught.value.message
        assert message.startswith("ImageFolderDataset: 'in/a/x.npy' is malformed (")
    assert caught.value.message == message
