"""The version, in a separate file so that packaging and the compile cache need not import more."""

__version__ = "0.1.0"
