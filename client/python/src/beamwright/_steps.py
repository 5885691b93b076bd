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

# Results of an encoder, of which each order is tried as the step's inputs.
_MOST_PERMUTED = 4

# Runs a module on arrays; returns all its results, in their order.
Run = Callable[[Sequence["Array"]], list["Array"]]


class Steps:
    """Names, states and open axes of both modules."""

    def __init__(
        self,
        encode: Run,
        step: Run,
        example: Array,
        *,
        length_axis: int = 1,
        names: Sequence[str] = (),
        one_hot: int = 0,
    ) -> None:
        """`names` are those that the step gives its inputs behind the token, as far as it does.

        one_hot: the step takes its tokens so, in this number of floats; 0: as ids.
        """
        self.one_hot = one_hot
        if example.ndim <= length_axis or length_axis < 1:
            raise ExportError(f"the example has shape {list(example.shape)}: axis {length_axis} has no length")
        self.encode, self.step = encode, step
        self.length_axis = length_axis
        # Two rows and three, of two lengths: what follows which is seen by the extents.
        small = example[np.arange(2) % len(example)]
        large = example[np.arange(3) % len(example)]
        # Twice the length: an encoder that joins positions gives more of them as well.
        self.sources = (small, np.concatenate([large, large], length_axis))
        self.results = [self._run(encode, [source], "encoder") for source in self.sources]
        # By input of the step behind the token: the encoder's result that it reads.
        self.order: Sequence[int] = range(len(self.results[0]))
        self.tokens = self._make_tokens()
        self.inputs = [self._ordered(values) for values in self.results]
        self.outputs = [
            self._run(step, [token, *values], "decoder step")
            for token, values in zip(self.tokens, self.inputs, strict=True)
        ]
        self.places = self._find_states()
        self.num_states = len(self.places)
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

    def _ordered(self, results: Sequence[Array]) -> list[Array]:
        """The encoder's results as the step takes them."""
        return [results[place] for place in self.order]

    def _make_tokens(self) -> list[Array]:
        """One token a row, in the shape that the step takes; finds the order of its other inputs as well."""
        why: ExportError | None = None
        count = len(self.results[0])
        orders = itertools.permutations(range(count)) if count <= _MOST_PERMUTED else [tuple(range(count))]
        for order, axes in itertools.product(orders, (1, 2)):
            self.order = order
            tokens = [self._as_read(np.zeros([len(source), 1][:axes], np.int64)) for source in self.sources]
            try:
                for token, results in zip(tokens, self.results, strict=True):
                    self._run(self.step, [token, *self._ordered(results)], "decoder step")
            except ExportError as error:
                why = why or error
            else:
                return tokens
        raise ExportError(
            f"{why or 'the decoder step takes no tokens'}; it takes the token and then the encoder's results, "
            "in this or, of up to four, in any other order"
        ) from why

    def _as_read(self, tokens: Array) -> Array:
        """Ids as the step reads them: one-hot, one behind all others as zeros."""
        return np.eye(self.one_hot + 1, self.one_hot, dtype=np.float32)[tokens] if self.one_hot else tokens

    def _find_states(self) -> tuple[int, ...]:
        """States are the inputs that come back with their shapes behind the logits; of several, the last."""
        for count in range(min(len(self.inputs[0]), len(self.outputs[0]) - 1), 0, -1):
            for places in sorted(itertools.combinations(range(len(self.inputs[0])), count), reverse=True):
                if all(
                    [values[place].shape for place in places] == [one.shape for one in outputs[1 : 1 + count]]
                    for values, outputs in zip(self.inputs, self.outputs, strict=True)
                ):
                    return places
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
        first = next(place for place in range(len(self.inputs[0])) if place not in self.places)
        small, large = (values[first].shape for values in self.inputs)
        rows = tuple(len(source) for source in self.sources)
        lengths = [pair for pair in zip(small, large, strict=True) if pair[0] != pair[1] and pair != rows]
        return bool(lengths) and tuple(outputs[-1].shape[-1] for outputs in self.outputs) == lengths[0]

    def _name_inputs(self, names: Sequence[str]) -> list[str]:
        if len(names) >= self.num_memories + self.num_states:
            return list(names[: self.num_memories + self.num_states])
        named = list(names)
        for place in range(len(named), self.num_memories + self.num_states):
            what, many = ("state", self.num_states) if place in self.places else ("memory", self.num_memories)
            number = sum(1 for before in range(place) if (before in self.places) == (place in self.places))
            named.append(what if many == 1 else f"{what}_{number}")
        return named

    def _name_outputs(self) -> list[str]:
        names = ["logits", *(f"{name}_next" for name in self.states), *(["attention"] if self.attends else [])]
        return [*names, *(f"unused_{place}" for place in range(len(self.outputs[0]) - len(names)))]

    @property
    def states(self) -> list[str]:
        """The step's inputs that are states."""
        return [self.input_names[place] for place in self.places]

    @property
    def guesses(self) -> tuple[str, ...]:
        """What was found, for people."""
        memory = ", ".join(repr(name) for name in self.input_names if name not in self.states)
        unused = [name for name in self.output_names if name.startswith("unused_")]
        return (
            f"the step carries {', '.join(map(repr, self.states))}: inputs which come back",
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

    def axes_of_results(self) -> dict[str, dict[int, str]]:
        """The same in the order in which the encoder gives them."""
        axes = self.axes_of_inputs()
        names = [self.input_names[self.order.index(place)] for place in range(len(self.order))]
        return {name: axes[name] for name in names}

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
        feed = self._ordered(self._run(self.encode, [np.asarray(source)[None]], "encoder"))
        found = []
        for before, after in itertools.pairwise(tokens):
            axes = self.tokens[0].ndim - (1 if self.one_hot else 0)
            token = self._as_read(np.full([1] * axes, before, np.int64))
            logits, *results = self._run(self.step, [token, *feed], "decoder step")
            found.append(float(_bundles.log_probs_of(logits, kind).reshape(-1)[after]))
            for place, state in zip(self.places, results[: self.num_states], strict=True):
                feed[place] = state
        return found


def _open_axes(small: Array, large: Array) -> dict[int, str]:
    """The axes whose extents differ between the two examples, by name."""
    found: dict[int, str] = {}
    for axis, (one, other) in enumerate(zip(small.shape, large.shape, strict=True)):
        if one != other:
            rows = (one, other) == (2, 3) and "rows" not in found.values()
            found[axis] = "rows" if rows else f"length_{axis}"
    return found
