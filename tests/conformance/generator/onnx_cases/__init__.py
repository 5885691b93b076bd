"""Graphs in ONNX's opsets 8 to 27: one module a family. `opset` is a variant like any other."""

from . import control, elementwise, fused, linear_states, movement, products, quantised, recurrent, reduce, sequences, signal
from .registry import suite

__all__ = ["suite"]
