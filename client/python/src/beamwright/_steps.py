"""An encoder and a decoder step of any framework: which of their tensors are what, found by running them.

    memory, *states = encoder(source)
    logits, *states, attention = step(token, memory, *states)

Arrays are NumPy's here; frameworks convert.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _bundles
from ._errors import ExportError

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._types import ModelDescription

    Array = npt.NDArray[Any]

# Runs a module on arrays; returns all its results, in their order.
Run = Callable[[Sequence["Array"]], list["Array"]]


class Steps:
    """Names, states and open axes of both modules."""

    def __init__(
        self, encode: Run, step: Run, example: Array, *, length_axis: int = 1, names: Sequence[str] = ()
    ) -> None:
        """`names` are those that the step gives its inputs behind the token, as far as it does."""
        if example.ndim <= length_axis or length_axis < 1:
            raise ExportError(f"the example has shape {list(example.shape)}: axis {length_axis} has no length")
        self.encode, self.step = encode, step
        self.length_axis = length_axis
        # Two rows and three, of two lengths: what follows which is seen by the extents.
        small = example[np.arange(2) % len(example)]
        large = example[np.arange(3) % len(example)]
        more = large.take([0, 0], axis=length_axis)
        self.sources = (small, np.concatenate([large, more], length_axis))
        self.inputs = [self._run(encode, [source], "encoder") for source in self.sources]
        self.tokens = self._make_tokens()
        self.outputs = [
            self._run(step, [token, *values], "decoder step")
            for token, values in zip(self.tokens, self.inputs, strict=True)
        ]
        self.num_states = self._count_states()
        self.num_memories = len(self.inputs[0]) - self.num_states
        self.attends = self._find_attention()
        self.input_names = self._name_inputs(names)
        self.output_names = self._name_outputs()

    def _run(self, run: Run, values: Sequence[Array], what: str) -> list[Array]:
        try:
            return run(values)
        except ExportError:
            raise
        except Exception as error:
            shapes = ", ".join(str(list(value.shape)) for value in values)
            raise ExportError(f"the {what} fails on inputs of shapes {shapes}: {error}") from error

    def _make_tokens(self) -> list[Array]:
        """One token a row, in the shape that the step takes."""
        why: ExportError | None = None
        for axes in (1, 2):
            tokens = [np.zeros([len(source), 1][:axes], np.int64) for source in self.sources]
            try:
                self._run(self.step, [tokens[0], *self.inputs[0]], "decoder step")
            except ExportError as error:
                why = why or error
            else:
                return tokens
        raise why or ExportError("the decoder step takes no tokens")

    def _count_states(self) -> int:
        """States are the last inputs that come back with their shapes behind the logits."""
        for count in range(min(len(self.inputs[0]), len(self.outputs[0]) - 1), 0, -1):
            if all(
                [one.shape for one in values[-count:]] == [one.shape for one in outputs[1 : 1 + count]]
                for values, outputs in zip(self.inputs, self.outputs, strict=True)
            ):
                return count
        raise ExportError(
            "the decoder step carries no state: none of its results has the shape of one of its inputs. It "
            "takes (token, memory, states) and returns (logits, states in the same order, attention); here "
            "inputs are "
            f"{[list(one.shape) for one in self.inputs[0]]} and results "
            f"{[list(one.shape) for one in self.outputs[0]]}"
        )

    def _find_attention(self) -> bool:
        """Whether a single result follows the states, as wide as the memory is long."""
        if len(self.outputs[0]) != 2 + self.num_states or not self.num_memories:
            return False
        first = [values[0].shape for values in self.inputs]
        open_axes = [axis for axis in range(1, len(first[0])) if first[0][axis] != first[1][axis]]
        return bool(open_axes) and all(
            outputs[-1].shape[-1] == shape[open_axes[0]]
            for outputs, shape in zip(self.outputs, first, strict=True)
        )

    def _name_inputs(self, names: Sequence[str]) -> list[str]:
        if len(names) >= self.num_memories + self.num_states:
            return list(names[: self.num_memories + self.num_states])
        made = (
            ["memory"] if self.num_memories == 1 else [f"memory_{place}" for place in range(self.num_memories)]
        )
        given = list(names[: self.num_memories])
        states = ["state"] if self.num_states == 1 else [f"state_{place}" for place in range(self.num_states)]
        return [*given, *made[len(given) :], *states]

    def _name_outputs(self) -> list[str]:
        names = ["logits", *(f"{name}_next" for name in self.states), *(["attention"] if self.attends else [])]
        return [*names, *(f"unused_{place}" for place in range(len(self.outputs[0]) - len(names)))]

    @property
    def states(self) -> list[str]:
        """The step's inputs that are states."""
        return self.input_names[self.num_memories :]

    @property
    def guesses(self) -> tuple[str, ...]:
        """What was found, for people."""
        memory = ", ".join(map(repr, self.input_names[: self.num_memories]))
        unused = [name for name in self.output_names if name.startswith("unused_")]
        return (
            f"the step carries {', '.join(map(repr, self.states))}: the last inputs, which come back",
            *([f"it reads {memory} as memory"] if memory else []),
            *(["its last result is the attention over the source"] if self.attends else []),
            *([f"results behind the states are left out: {len(unused)}"] if unused else []),
        )

    def axes_of_inputs(self) -> dict[str, dict[int, str]]:
        """The open axes of the step's inputs besides the token, which the encoder gives, by port."""
        return {
            name: _open_axes(small, large)
            for name, small, large in zip(self.input_names, *self.inputs, strict=True)
        }

    def axes_of_outputs(self) -> dict[str, dict[int, str]]:
        """The same of what it gives."""
        return {
            name: _open_axes(small, large)
            for name, small, large in zip(self.output_names, *self.outputs, strict=True)
        }

    def flags(self) -> list[str]:
        """For init, which need not guess what is known."""
        said = ["--token-input", "token", "--logits-output", "logits"]
        for name in self.states:
            said += ["--state", f"{name}={name}_next"]
        return said if self.length_axis == 1 else [*said, "--length-axis", str(self.length_axis)]

    def reference(self, source: Any, tokens: Sequence[int], described: ModelDescription) -> list[float]:
        """The modules' log-probabilities of an answer."""
        kind = described.config["decoder"].get("logits_kind", "LOGITS_KIND_LOGITS")
        feed = self._run(self.encode, [np.asarray(source)[None]], "encoder")
        found = []
        for before, after in itertools.pairwise(tokens):
            token = np.full([1] * self.tokens[0].ndim, before, np.int64)
            logits, *results = self._run(self.step, [token, *feed], "decoder step")
            found.append(float(_bundles.log_probs_of(logits, kind).reshape(-1)[after]))
            feed[self.num_memories :] = results[: self.num_states]
        return found


def _open_axes(small: Array, large: Array) -> dict[int, str]:
    """The axes whose extents differ between the two examples, by name."""
    found: dict[int, str] = {}
    for axis, (one, other) in enumerate(zip(small.shape, large.shape, strict=True)):
        if one != other:
            rows = (one, other) == (2, 3) and "rows" not in found.values()
            found[axis] = "rows" if rows else f"length_{axis}"
    return found
