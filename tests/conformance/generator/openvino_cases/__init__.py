"""Graphs in OpenVINO's opsets: one module a family."""

from . import (
    attention,
    elementwise,
    indexing,
    loops,
    movement,
    products,
    recurrent,
    reduce,
    segments,
)
from .registry import suite

__all__ = ["suite"]
