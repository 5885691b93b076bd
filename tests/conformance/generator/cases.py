"""The registry of cases, and what a case has at hand while it builds its graph.

A family is a module of functions under @suite.case. A function builds one graph and returns its results; the
decorator's keywords list what is varied, and each combination is a separate case:

    @suite.case(axis=[0, 1, -1])
    def softmax(b, axis):
        return ops.softmax(b.input((2, 3, 4), (5, 3, 4)), axis)

gives the cases softmax,axis=0 and so on, each run on two data sets: the first extent is dynamic. Random numbers
come from a generator seeded with the case's name, so that a case never changes because another one was added.
"""

import itertools
import zlib

import numpy as np


class Suite:
    """Cases by name."""

    def __init__(self):
        self.cases = {}

    def case(self, **variants):
        """Registers a function for each combination of the variants' values. A dict of values names them."""

        def register(function):
            choices = []
            for key, values in variants.items():
                named = (
                    values
                    if isinstance(values, dict)
                    else {_label(value): value for value in values}
                )
                assert len(named) == len(
                    values
                ), f"{function.__name__}: two values of {key} share a label"
                choices.append([(f"{key}={label}", key, value) for label, value in named.items()])
            for combination in itertools.product(*choices):
                name = ",".join([function.__name__, *(label for label, _, _ in combination)])
                assert name not in self.cases, f"two cases are called {name}"
                self.cases[name] = (function, {key: value for _, key, value in combination})
            return function

        return register


def _label(value):
    text = "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text.replace(" ", "").replace("/", "_")


class Build:
    """What a case builds its inputs with, whichever graph format it is for."""

    def __init__(self, name):
        self.name = name
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.feeds = {}  # input name -> one array for each data set
        self.tolerance = 0  # relative; 0: the runner's own for the output's type
        self.reference = (
            None  # NumPy function of the inputs, where the other implementation is wrong
        )

    def random(self, shape, dtype="f4", low=-1, high=1):
        """Evenly distributed numbers; integers include both ends, booleans ignore them."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        if dtype.kind in "iu":
            return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)
        return self.rng.uniform(low, high, shape).astype(dtype)

    def expect(self, reference, why):
        """Compares with this function of the input arrays (a list of outputs), because `why`."""
        assert why
        self.reference = reference

    def _feed(self, shapes, values, **kind):
        """Adds an input; returns its name and its arrays."""
        arrays = [np.asarray(value) for value in values] or [
            self.random(shape, **kind) for shape in shapes
        ]
        name = f"x{len(self.feeds)}"
        self.feeds[name] = arrays
        return name, arrays

    def data_sets(self):
        """The inputs of each data set. Inputs with fewer arrays than others repeat their last."""
        count = max((len(arrays) for arrays in self.feeds.values()), default=1)
        return [
            {name: arrays[min(i, len(arrays) - 1)] for name, arrays in self.feeds.items()}
            for i in range(count)
        ]


def declared_shape(arrays):
    """The extents that all arrays share; None where they differ."""
    first = arrays[0].shape
    assert all(len(array.shape) == len(first) for array in arrays)
    return [
        extent if all(array.shape[axis] == extent for array in arrays) else None
        for axis, extent in enumerate(first)
    ]
