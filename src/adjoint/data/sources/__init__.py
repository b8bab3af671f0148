"""Sources: where the rows of datasets come from, one kind per file."""

from adjoint.data.sources.csv_files import CSVDataset
from adjoint.data.sources.generator import GeneratorDataset
from adjoint.data.sources.grain import GrainDataset
from adjoint.data.sources.huggingface import HuggingFaceDataset
from adjoint.data.sources.idx_files import IdxDataset
from adjoint.data.sources.image_folder import ImageFolderDataset
from adjoint.data.sources.parquet import ParquetDataset
from adjoint.data.sources.slices import NumpySlicesDataset
from adjoint.data.sources.text_lines import TextFileDataset

__all__ = [
    "CSVDataset",
    "GeneratorDataset",
    "GrainDataset",
    "HuggingFaceDataset",
    "IdxDataset",
    "ImageFolderDataset",
    "NumpySlicesDataset",
    "ParquetDataset",
    "TextFileDataset",
]
