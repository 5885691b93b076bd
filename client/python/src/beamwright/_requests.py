"""Python values into requests. What makes no sense is refused here, naming argument and value."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._errors import ArgumentTypeError, BeamwrightError, invalid
from ._rule import Rule
from ._types import DecoderInputs, Features, Hotword, Picture, WithInputs

_INT32 = (-(2**31), 2**31 - 1)
_LARGEST_FLOAT = 3.4028234663852886e38
# Names of element types, by those of NumPy (and of ml_dtypes, whose arrays are NumPy's).
_DTYPES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float64": "f64",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "boolean",
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _kind_of(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__array_interface__")


def _set_text(message: Any, value: str, argument: str) -> None:
    try:
        message.text = value
    except (ValueError, UnicodeError):
        raise invalid(argument, f"{_shown(value)} is not valid Unicode: it has lone surrogates") from None


def _set_ids(ids: Any, values: Iterable[Any], argument: str) -> None:
    """Adds ids to a message TokenIds."""
    if not isinstance(values, (list, tuple)):
        values = list(values)
    if any(isinstance(value, bool) for value in values):
        raise ArgumentTypeError(f"{argument}: {_shown(values)} has bools where token ids should be")
    try:
        ids.ids.extend(operator.index(value) for value in values)
    except TypeError:
        raise ArgumentTypeError(
            f"{argument}: {_shown(values)} is not a sequence of token ids (whole numbers)"
        ) from None
    except ValueError:
        raise invalid(argument, f"{_shown(values)} has an id that does not fit 32 bits") from None
    if not values:
        ids.SetInParent()


def set_tensor(tensor: Any, values: Any, argument: str) -> None:
    import numpy as np

    array = np.asarray(values)
    dtype = _DTYPES.get(array.dtype.name)
    if dtype is None:
        raise ArgumentTypeError(
            f"{argument}: elements of type {array.dtype} are not sent; there are {', '.join(_DTYPES)}"
        )
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not np.little_endian):
        array = array.astype(array.dtype.newbyteorder("<"))
    tensor.dtype = dtype
    tensor.shape.extend(array.shape)
    tensor.data = np.ascontiguousarray(array).tobytes()


def set_source(message: Any, source: Any) -> str | None:
    """Fills a message Source; returns the source if it is text."""
    if isinstance(source, str):
        _set_text(message, source, "source")
        return source
    if isinstance(source, WithInputs):
        for name, values in source.further_inputs.items():
            set_tensor(message.further_inputs[name], values, f"source.further_inputs[{name!r}]")
        return set_source(message, source.source)
    if isinstance(source, Features):
        set_tensor(message.features, source.values, "source")
    elif isinstance(source, Picture):
        if isinstance(source.file, bytes):
            message.picture = source.file
        else:
            message.picture = pathlib.Path(source.file).read_bytes()
    elif isinstance(source, DecoderInputs):
        inputs = message.decoder_inputs
        inputs.SetInParent()
        for name, values in source.memory.items():
            set_tensor(inputs.memory[name], values, f"source.memory[{name!r}]")
        for name, values in source.states.items():
            set_tensor(inputs.states[name], values, f"source.states[{name!r}]")
        inputs.source_length = source.source_length
    elif _is_array(source):
        import numpy as np

        array = np.asarray(source)
        if array.ndim == 1 and array.dtype.kind in "iu":
            _set_ids(message.ids, array.tolist(), "source")
        elif array.ndim == 0:
            raise ArgumentTypeError(f"source: {_shown(source)} is a single number, not a source")
        else:
            set_tensor(message.features, array, "source")
    elif isinstance(source, (bytes, bytearray)):
        raise ArgumentTypeError(
            "source is bytes; decode them to str first: source.decode(); a picture is Picture(source)"
        )
    elif isinstance(source, (list, tuple, range)) or (
        isinstance(source, Sequence) and not isinstance(source, memoryview)
    ):
        if any(isinstance(item, (str, list, tuple)) or _is_array(item) for item in source[:1]):
            raise ArgumentTypeError(
                f"source: {_shown(source)} looks like several sources; decode_many takes them"
            )
        _set_ids(message.ids, source, "source")
    else:
        raise ArgumentTypeError(
            f"source is {_kind_of(source)}; text, token ids, a NumPy array, Features, Picture, "
            "WithInputs or DecoderInputs are allowed"
        )
    return None


def set_source_or_prompt(message: Any, options: Any, source: Any, prompt: Any, state: Any) -> str | None:
    """As set_source; with a prompt, the Source is empty or a state, and answers begin with the prompt."""
    if state is not None:
        if not isinstance(state, bytes):
            raise ArgumentTypeError(f"state is {_kind_of(state)}; the bytes that an answer had are expected")
        message.state = state
        prompt = "" if prompt is None else prompt
    if prompt is None:
        return set_source(message, source)
    if source is not None:
        raise ArgumentTypeError("prompt: there is a source as well; a model without an encoder reads none")
    if options.HasField("target_prefix"):
        raise ArgumentTypeError("prompt: there is a target_prefix as well; both are what answers begin with")
    message.SetInParent()
    set_target(options.target_prefix, prompt, "prompt")
    if not (options.target_prefix.text or options.target_prefix.ids.ids):
        options.ClearField("target_prefix")  # an empty prompt: answers begin anew
    return None


def set_target(message: Any, target: Any, argument: str) -> str | None:
    """Fills a message TargetTokens (or Hotword); returns the target if it is text."""
    if isinstance(target, str):
        _set_text(message, target, argument)
        return target
    if _is_array(target):
        import numpy as np

        array = np.asarray(target)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ArgumentTypeError(
                f"{argument}: an array of shape {array.shape} and type {array.dtype}; "
                "token ids are whole numbers of one axis"
            )
        target = array.tolist()
    if isinstance(target, (bytes, bytearray)) or not isinstance(target, Sequence):
        raise ArgumentTypeError(f"{argument} is {_kind_of(target)}; text or a sequence of token ids is allowed")
    _set_ids(message.ids, target, argument)
    return None


def _whole(value: Any, argument: str, rule: Rule) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentTypeError(f"{argument} is {_kind_of(value)} {_shown(value)}; a whole number is expected")
    whole = operator.index(value)
    if not _INT32[0] <= whole <= _INT32[1]:
        low = _INT32[0] if rule.minimum is None else int(rule.minimum)
        high = _INT32[1] if rule.maximum is None else int(rule.maximum)
        raise invalid(f"options.{argument}", f"{whole} is outside [{low}, {high}]")
    return whole


def _real(value: Any, argument: str) -> float:
    if isinstance(value, (bool, str, bytes)) or not (
        isinstance(value, numbers.Real) or (hasattr(value, "__float__") and not getattr(value, "shape", ()))
    ):
        raise ArgumentTypeError(f"{argument} is {_kind_of(value)} {_shown(value)}; a number is expected")
    real = float(value)
    if not math.isfinite(real) or abs(real) > _LARGEST_FLOAT:
        raise invalid(f"options.{argument}", f"{real} is not a finite number of 32 bits")
    return real


def _listed(value: Any, argument: str, expected: str) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ArgumentTypeError(f"{argument} is {_kind_of(value)} {_shown(value)}; {expected} is expected")
    return list(value)


def _set_hotwords(field: Any, value: Any, argument: str) -> None:
    words: list[Any]
    if isinstance(value, Mapping):
        words = [Hotword(phrase, bonus) for phrase, bonus in value.items()]
    else:
        words = _listed(value, argument, "a mapping of phrases to bonuses, or a list of phrases")
    for place, word in enumerate(words):
        hotword = word if isinstance(word, Hotword) else Hotword(word)
        message = field.add()
        set_target(message, hotword.phrase, f"{argument}[{place}]")
        message.bonus = _real(hotword.bonus, f"{argument}[{place}].bonus")


def _set_logit_bias(field: Any, value: Any, argument: str) -> None:
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            f"{argument} is {_kind_of(value)} {_shown(value)}; a mapping of tokens to biases is expected"
        )
    for tokens, bias in value.items():
        message = field.add()
        set_target(message, tokens if isinstance(tokens, str) else [tokens], f"{argument}[{tokens!r}]")
        message.bias = _real(bias, f"{argument}[{tokens!r}]")


def _set_option(message: Any, name: str, rule: Rule, value: Any) -> None:
    if rule.kind == "int":
        setattr(message, name, _whole(value, name, rule))
    elif rule.kind == "float":
        setattr(message, name, _real(value, name))
    elif rule.kind == "bool":
        if not isinstance(value, bool) and type(value).__name__ not in {"bool_", "bool"}:
            raise ArgumentTypeError(f"{name} is {_kind_of(value)} {_shown(value)}; True or False is expected")
        setattr(message, name, bool(value))
    elif rule.kind == "str":
        if not isinstance(value, str):
            raise ArgumentTypeError(f"{name} is {_kind_of(value)} {_shown(value)}; text is expected")
        setattr(message, name, value)
    elif rule.kind == "enum":
        if not isinstance(value, str):
            raise ArgumentTypeError(
                f"{name} is {_kind_of(value)} {_shown(value)}; one of {', '.join(rule.choices)} is expected"
            )
        if value not in rule.choices:
            raise invalid(f"options.{name}", f"{value!r} is not known; known are {', '.join(rule.choices)}")
        setattr(message, name, rule.choices[value])
    elif rule.kind == "tokens":
        set_target(getattr(message, name), value, name)
    elif rule.kind == "token_lists":
        entries = _listed(value, name, "a list of texts or of lists of token ids")
        for place, entry in enumerate(entries):
            set_target(getattr(message, name).add(), entry, f"{name}[{place}]")
    elif rule.kind == "strs":
        texts = [value] if isinstance(value, str) else _listed(value, name, "a text or a list of texts")
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise ArgumentTypeError(f"{name}[{place}] is {_kind_of(text)} {_shown(text)}; text is expected")
        getattr(message, name).extend(texts)
    elif rule.kind == "logit_bias":
        _set_logit_bias(getattr(message, name), value, name)
    elif rule.kind == "hotwords":
        _set_hotwords(getattr(message, name), value, name)
    else:
        if not isinstance(value, Mapping):
            raise ArgumentTypeError(
                f"{name} is {_kind_of(value)} {_shown(value)}; a mapping of scorers to weights is expected"
            )
        for scorer, weight in value.items():
            part = getattr(message, name).add()
            part.name = str(scorer)
            part.weight = _real(weight, f"{name}[{scorer!r}]")


def set_options(message: Any, options: Mapping[str, Any], rules: Mapping[str, Rule], call: str) -> None:
    """Fills a message of options; None stands for an option that is not given."""
    for name, value in options.items():
        rule = rules.get(name)
        if rule is None:
            near = difflib.get_close_matches(name, rules, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ArgumentTypeError(f"{call}() has no option {name!r}{hint}")
        if value is not None:
            _set_option(message, name, rule, value)


def set_model(request: Any, model: object, version: object) -> None:
    """Fills model and version of a request."""
    if model is not None:
        if not isinstance(model, str):
            raise ArgumentTypeError(f"model is {_kind_of(model)}; a name is expected")
        request.model = model
    if version is not None:
        if not isinstance(version, (str, int)) or isinstance(version, bool):
            raise ArgumentTypeError(f"version is {_kind_of(version)}; a number or a label is expected")
        request.version = str(version)


def located(error: BeamwrightError, index: int) -> BeamwrightError:
    """The error of a source that was found before anything was sent, with the source's index."""
    if isinstance(error, ArgumentTypeError):
        return ArgumentTypeError(f"source {index}: {error}")
    error.index = index  # type: ignore[attr-defined]  # an RpcError
    return error
