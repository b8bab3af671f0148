"""The version, alone, so that packaging and the compile cache read it without importing more."""

__version__ = "0.1.0"
