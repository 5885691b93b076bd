"""Fourier transforms of known length, as audio front ends have them."""

from .registry import suite

# The parts of the input (real alone, or complex), and which transform; ONNX has no others.
KINDS = {
    "real": (1, {}),
    "onesided": (1, {"onesided": 1}),
    "complex": (2, {}),
    "inverse": (2, {"inverse": 1}),
}


@suite.case(opset=[17, 20], kind=KINDS, length=[None, 6, 11])
def dft(b, kind, length):
    """Signals that are whole, cut off or filled up with zeros."""
    parts, attributes = kind
    x = b.input((2, 9, 3, parts), (4, 9, 3, parts))
    given = "" if length is None else b.integers(length)
    if b.opset < 20:
        return b.node("DFT", x, given, axis=1, **attributes)
    return b.node("DFT", x, given, b.integers(1), **attributes)
