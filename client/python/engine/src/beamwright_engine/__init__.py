"""Where libbeamwright.so is: beamwright.Model loads it from here."""

import pathlib

__version__ = "0.2.0"


def library() -> pathlib.Path:
    """The library's file."""
    return pathlib.Path(__file__).resolve().parent / "libbeamwright.so.1"
