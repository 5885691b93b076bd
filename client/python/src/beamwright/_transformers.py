"""from_transformers: models of Hugging Face's transformers as bundles.

Recurrent language models are exported here, step by step; encoder-decoders by optimum.
"""

from __future__ import annotations

import contextlib
import copy
import json
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _bundles
from ._errors import ArgumentTypeError, ExportError

if TYPE_CHECKING:
    from ._bundles import Bundle, Path

_OPSET = 17
# How models call the cache, as an argument and as a result.
_CACHES = ("cache", "past_key_values", "cache_params", "state")
_CHECKED_TOKENS = 12
_TEXTS = ("Once upon a time, it's 1234 o'clock.", "  naïve\n\n\tŻółć; 東京都 привет")


def from_transformers(
    model: Any,
    tokenizer: Any,
    out: Path,
    *,
    begin: str | int | None = None,
    end: str | int | Sequence[str | int] | None = None,
    name: str | None = None,
    flags: Sequence[str] = (),
) -> Bundle:
    """Exports a model, writes a bundle, and compares its answers with the model's.

    Of an encoder-decoder, as Marian, BART and T5 are, `optimum-onnx` exports the parts; sources get the special
    tokens that the tokenizer puts around them. Of a causal model one step is exported.

    The model's cache becomes the step's states: of Mamba, Mamba-2, FalconMamba, RWKV-4, xLSTM, RecurrentGemma,
    and of models that mix recurrent layers with attention over all tokens, as Jamba, Qwen3-Next and Qwen3.5 do.
    Other windows of attention are refused.

    Args:
        model: A model of transformers, in f32 on the CPU. It is put into eval mode meanwhile.
        tokenizer: Its tokenizer, with a tokenizer.json; or a list of tokens, or a vocabulary file
            (tokenizer.json, RWKV's vocabulary, a SentencePiece model); None: the bundle takes ids alone.
        out: The folder to make, as "models/mamba/1".
        begin: Token that the first step reads, before a prompt; None: the tokenizer's or the model's bos_token,
            or else the end token; of an encoder-decoder the decoder_start_token.
        end: Token, or tokens, that end an answer; None: the eos_token.
        name: The model's name; None: that of the folder.
        flags: More of `beamwright-graph init`'s.

    Raises:
        ExportError: The model keeps another kind of cache, cannot be exported, or the
            bundle answers otherwise.
    """
    import torch

    from ._torch import _quiet

    if not hasattr(model, "config") or not isinstance(model, torch.nn.Module):
        raise ArgumentTypeError(f"model is {type(model).__name__}; a model of transformers is expected")
    out = pathlib.Path(out)
    if getattr(model.config, "is_encoder_decoder", False):
        with _quiet(model):
            named = [] if name is None else ["--name", name]
            return _of_encoder_decoder(model, tokenizer, out, (begin, end), [*named, *flags])
    begin_ids, end_ids = _special(model, tokenizer, begin, end)
    with _quiet(model), tempfile.TemporaryDirectory(prefix="beamwright-") as scratch:
        step = _step_of(model)
        graph = pathlib.Path(scratch) / "step.onnx"
        with _plain_attention(model, masked=step.masked):
            starts = step.export(graph)
        vocabulary = _vocabulary(model, tokenizer, pathlib.Path(scratch))
        said = [*_bundles.flags_of(begin_ids, end_ids, name), "--decoder"]
        said += ["--token-input", "token", "--logits-output", "logits"]
        for state in starts:
            said += ["--state", f"{state}={state}_next"]
        guesses, notes = _bundles.run_init([graph], (None, vocabulary), out, [*said, *flags])
        _set_starts(out, starts)
        guesses = [
            guess for guess in guesses if "starts with zeros" not in guess
        ]  # a step from there was compared
        checked = _compare(out, model, tokenizer)
    return _bundles.Bundle(out, tuple(guesses), tuple(notes), checked)


@contextlib.contextmanager
def _plain_attention(model: Any, masked: bool) -> Iterator[None]:
    """Attention of one token over its whole cache, without a copy of keys for each query's head.

    masked: A mask, [rows, 1, 1, keys], is added to scores where there is one.
    """
    import torch
    import transformers

    def attend(_: Any, *arguments: Any, scaling: Any = None, **__: Any) -> Any:
        query, key, value, mask = arguments[:4]
        heads, groups, width = query.shape[1], key.shape[1], query.shape[3]
        queries = query.reshape(-1, groups, heads // groups, width)
        scores = torch.matmul(queries, key.transpose(2, 3)) * (width**-0.5 if scaling is None else scaling)
        scores = scores + mask if masked and mask is not None else scores
        read = torch.matmul(torch.softmax(scores, -1), value)
        return read.reshape(-1, 1, heads, value.shape[3]), None

    before = getattr(model.config, "_attn_implementation", None)
    if before is None or not hasattr(model, "set_attn_implementation"):
        yield
        return
    transformers.AttentionInterface.register("beamwright", attend)
    try:
        model.set_attn_implementation("beamwright")
        yield
    finally:
        model.set_attn_implementation(before)


def _special(model: Any, tokenizer: Any, begin: Any, end: Any) -> tuple[Any, Any]:
    """Begin and end tokens, as `init` takes them: texts where there is a vocabulary, ids elsewhere."""

    def known(kind: str) -> Any:
        for owner in (tokenizer, getattr(model, "generation_config", None), model.config):
            found = getattr(owner, f"{kind}_token_id", None)
            if found is not None:
                return found
        return None

    end = known("eos") if end is None else end
    ends = [end] if isinstance(end, (str, int)) else list(end or [])
    if not ends:
        raise ExportError("neither the tokenizer nor the model names an eos_token: pass end=")
    begin = known("bos") if begin is None else begin
    begin = ends[0] if begin is None else begin
    convert = getattr(tokenizer, "convert_ids_to_tokens", None)

    def said(token: Any) -> Any:
        if convert is not None:
            return convert(token) if isinstance(token, int) else token
        if isinstance(tokenizer, (list, tuple)) and isinstance(token, int):
            return tokenizer[token]
        return token

    return said(begin), [said(token) for token in ends]


def _vocabulary(model: Any, tokenizer: Any, folder: pathlib.Path) -> Any:
    """What `init` reads as the vocabulary: as many tokens as the model has logits."""
    if getattr(tokenizer, "convert_ids_to_tokens", None) is None:
        return tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ExportError(
            f"{type(tokenizer).__name__} has no tokenizer.json; pass its vocabulary file, or None for ids"
        )
    size = model.config.vocab_size
    if len(tokenizer) > size:
        raise ExportError(
            f"the tokenizer has {len(tokenizer)} tokens, the model {size}: they do not belong together"
        )
    content = json.loads(backend.to_str())
    # Models often have more logits than their tokenizer has tokens: a round number of columns.
    pieces = content["model"]["vocab"]  # by text; of Unigram a list
    numbered = pieces.values() if isinstance(pieces, dict) else range(len(pieces))
    known = {*numbered, *(token["id"] for token in content["added_tokens"])}
    for place in set(range(size)) - known:
        content["added_tokens"].append({"id": place, "content": f"<unused {place}>", "special": True})
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


class _OfLayers:
    """transformers' Cache: a list of layers, each with the states of its convolutions and recurrences."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self.grows = False
        for place, layer in enumerate(cache.layers):
            # Names of types: a cache of a window or of quantised keys has keys, too.
            grows = type(layer).__name__ in ("DynamicLayer", "LinearAttentionAndFullAttentionLayer")
            if not grows and (getattr(layer, "conv_states", None) is None or hasattr(layer, "keys")):
                raise ExportError(
                    f"layer {place} keeps a cache of {type(layer).__name__}: from_transformers takes recurrent "
                    "layers, and attention over all tokens"
                )
            self.grows = self.grows or grows
        self.dynamo = self.grows  # the other exporter joins extents of rows and of caches into shapes

    def slots(self, cache: Any) -> Iterator[tuple[str, dict[Any, Any], Any]]:
        for place, layer in enumerate(cache.layers):
            for number in getattr(layer, "conv_states", None) or {}:
                suffix = f"{place}" if number == 0 else f"{place}_{number}"
                for kind in ("conv", "recurrent"):
                    states = getattr(layer, f"{kind}_states")
                    if states[number] is not None:
                        yield f"{kind}_{suffix}", states, number
            for kind in ("keys", "values"):
                if getattr(layer, kind, None) is not None:
                    yield f"{kind}_{place}", vars(layer), kind

    def read(self, cache: Any) -> dict[str, Any]:
        return {name: states[number] for name, states, number in self.slots(cache)}

    def write(self, values: Sequence[Any]) -> Any:
        cache = copy.copy(self._cache)
        cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        for layer in cache.layers:
            for kind in ("conv_states", "recurrent_states"):
                if hasattr(layer, kind):
                    setattr(layer, kind, dict(getattr(layer, kind)))
        for (_, states, number), value in zip(list(self.slots(cache)), values, strict=True):
            states[number] = value.clone()  # the model writes into it
        return cache


class _OfMatrices:
    """xLSTM's cache: a tuple of tensors for each layer."""

    dynamo = grows = False

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def read(self, cache: Any) -> dict[str, Any]:
        return {
            f"{kind}_{place}": value
            for place, values in cache.rnn_state.items()
            for kind, value in zip(("matrix", "normalizer", "maximum"), values, strict=True)
        }

    def write(self, values: Sequence[Any]) -> Any:
        cache, rest = copy.copy(self._cache), iter(values)
        cache.seqlen_offset = cache.seqlen_offset.clone()
        cache.rnn_state = {
            place: tuple(next(rest).clone() for _ in known) for place, known in self._cache.rnn_state.items()
        }
        return cache


class _Columns:
    """A tensor [rows, width, layers] of RWKV-4, as a separate tensor for each layer: states[:, :, layer]."""

    def __init__(self, values: list[Any], shift: bool) -> None:
        self.values, self._shift = values, shift

    def __getitem__(self, place: tuple[Any, Any, int]) -> Any:
        # The model mixes the last token's [rows, width] with this one's [rows, 1, width]: right for one row.
        value = self.values[place[2]]
        return value.unsqueeze(1) if self._shift else value

    def __setitem__(self, place: tuple[Any, Any, int], value: Any) -> None:
        self.values[place[2]] = value


class _OfColumns:
    """RWKV-4's cache: five tensors [rows, width, layers]."""

    grows = False
    dynamo = True  # the other exporter writes results into zeros, by which rows cannot be separated

    _NAMES = ("ffn", "shift", "numerator", "denominator", "exponent")

    def __init__(self, cache: Any) -> None:
        self._layers = cache[0].shape[2]

    def read(self, cache: Any) -> dict[str, Any]:
        return {
            f"{kind}_{place}": part.values[place] if isinstance(part, _Columns) else part[:, :, place]
            for kind, part in zip(self._NAMES, cache, strict=True)
            for place in range(self._layers)
        }

    def write(self, values: Sequence[Any]) -> Any:
        parts = [list(values[at : at + self._layers]) for at in range(0, len(values), self._layers)]
        return [_Columns(part, number < 2) for number, part in enumerate(parts)]


class _OfModules:
    """RecurrentGemma keeps states of recurrent layers in modules, and windows of keys and values in a cache.

    A window is a state of fixed size, whose places before the first token are masked.
    """

    grows = True  # with the number of the step
    dynamo = False

    def __init__(self, model: Any, blocks: list[Any]) -> None:
        self._model, self._blocks = model, blocks
        self._size = model.config.sliding_window
        self._windows: dict[int, tuple[Any, Any]] = {}

    def update(self, key: Any, value: Any, layer: int, **_: Any) -> tuple[Any, Any]:
        """What the model calls its cache for."""
        import torch

        before = self._windows.get(layer)
        if before is None:  # the first token
            empty = key.new_zeros([key.shape[0], key.shape[1], self._size - 1, key.shape[3]])
            before = (empty, empty.clone())
        keys, values = (torch.cat(both, 2) for both in zip(before, (key, value), strict=True))
        self._windows[layer] = (keys[:, :, 1:], values[:, :, 1:])
        return keys, values

    def get_seq_length(self, *_: Any) -> int:
        return 0

    def more(self, position: Any) -> dict[str, Any]:
        """Arguments of the model for one token."""
        import torch

        is_known = torch.arange(self._size).unsqueeze(0) >= self._size - 1 - position
        mask = torch.where(is_known, 0.0, -1e30).unsqueeze(1).unsqueeze(1)
        return {"cache": self, "position_ids": position, "attention_mask": {"sliding_attention": mask}}

    def first(self) -> _OfModules:
        """After one token of three rows."""
        import torch

        for block in self._blocks:
            block.conv1d_state = block.rg_lru.recurrent_states = None
        self._windows = {}
        position = torch.zeros([3, 1], dtype=torch.int64)
        with torch.no_grad(), _plain_attention(self._model, masked=True):
            try:
                self._model(
                    input_ids=torch.zeros([3, 1], dtype=torch.int64), use_cache=True, **self.more(position)
                )
            except TypeError as error:
                name = type(self._model).__name__
                raise ExportError(f"{name} is exported with transformers 5.24 or newer: {error}") from error
        return self

    def read(self, _: Any) -> dict[str, Any]:
        states: dict[str, Any] = {}
        for place, block in enumerate(self._blocks):
            states[f"conv_{place}"] = block.conv1d_state
            states[f"recurrent_{place}"] = block.rg_lru.recurrent_states
        for place, window in sorted(self._windows.items()):
            for kind, value in zip(("keys", "values"), window, strict=True):
                states[f"window_{kind}_{place}"] = value
        return states

    def write(self, values: Sequence[Any]) -> Any:
        rest = iter(values)
        for block in self._blocks:
            block.conv1d_state = next(rest).clone()
            block.rg_lru.recurrent_states = next(rest).clone()
        for place in sorted(self._windows):
            self._windows[place] = (next(rest), next(rest))
        return self


def _step_of(model: Any) -> Any:
    """A module of one step of the model; ExportError if its cache is of an unknown kind."""
    import torch

    def run(ids: Any, **more: Any) -> tuple[str, Any, Any]:
        try:
            results = model(input_ids=ids, use_cache=True, **more)
        except Exception as error:
            raise ExportError(
                f"{type(model).__name__} fails on token ids {list(ids.shape)}: {error}"
            ) from error
        found = [kind for kind in _CACHES if results.get(kind) is not None]
        if blocks:
            return "cache", None, results
        if not found:
            raise ExportError(
                f"{type(model).__name__} returns no cache: it keeps its states in its layers, or it has none"
            )
        return found[0], results[found[0]], results

    blocks = [module for module in model.modules() if hasattr(module, "conv1d_state")]
    argument, cache, _ = run(torch.zeros([3, 2], dtype=torch.int64))
    form: Any
    if blocks:
        form = _OfModules(model, blocks)
        cache = form.first()
    elif hasattr(cache, "layers"):
        form = _OfLayers(cache)
    elif hasattr(cache, "rnn_state"):
        form = _OfMatrices(cache)
    elif isinstance(cache, list) and len(cache) == len(_OfColumns._NAMES):
        form = _OfColumns(cache)
    else:
        raise ExportError(f"{type(model).__name__} has a cache of {type(cache).__name__}, which is not known")

    class Step(torch.nn.Module):  # type: ignore[misc]
        """(token [rows], states) -> logits [rows, tokens], next states."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.masked = bool(blocks)

        def forward(self, token: Any, *states: Any) -> Any:
            more = {argument: form.write(states[1:] if form.grows else states)}
            if form.grows:
                more["position_ids"] = states[0]
            if blocks:
                more.update(form.more(states[0]))
            results = self.model(input_ids=token.unsqueeze(1), use_cache=True, **more)
            return (results.logits[:, -1], *form.read(results.get(argument)).values())

        def export(self, path: pathlib.Path) -> dict[str, float]:
            """Writes the graph. Returns what fills each state before the first token."""
            states = {kind: value.detach().clone() for kind, value in form.read(cache).items()}
            starts = _starts(self, list(states), list(states.values()), run, form.grows)
            position = [torch.full([3, 1], 2)] if form.grows else []
            names = ["token", *(["position"] if form.grows else []), *states]
            results = ["logits", *(f"{kind}_next" for kind in states)]
            rows: dict[str, Any]
            if form.dynamo:
                axes = {0: torch.export.Dim("rows")}
                longer = {**axes, 2: torch.export.Dim("past")}
                shapes = [longer if kind.startswith(("keys_", "values_")) else axes for kind in names[1:]]
                rows = {"dynamic_shapes": {"token": axes, "states": tuple(shapes)}, "verbose": False}
            else:
                # Models from transformers 5.24 on write into their states.
                torch.onnx.register_custom_op_symbolic(
                    "aten::copy", lambda graph, _, source, *__: graph.op("Identity", source), _OPSET
                )
                rows = {
                    "opset_version": _OPSET,
                    "dynamic_axes": {port: {0: "rows"} for port in [*names, *results]},
                }
            try:
                torch.onnx.export(
                    self,
                    (torch.tensor([1, 0, 1]), *position, *states.values()),
                    str(path),
                    dynamo=form.dynamo,
                    input_names=names,
                    output_names=results,
                    **rows,
                )
            except ImportError as error:
                raise ExportError(
                    f"PyTorch's exporter needs another package: {error} (pip install onnx onnxscript)"
                ) from error
            return starts

    return Step()


def _starts(
    step: Any, names: list[str], states: list[Any], run: Callable[..., Any], grows: bool
) -> dict[str, float]:
    """What fills each state before the first token. ExportError if a step from there is another."""
    import torch

    starts = {kind: -1e30 if kind.startswith("exponent") else 0.0 for kind in names}
    filled = [
        state[:, :, :0] if kind.startswith(("keys_", "values_")) else torch.full_like(state, starts[kind])
        for kind, state in zip(names, states, strict=True)
    ]
    position = [torch.zeros([3, 1], dtype=torch.int64)] if grows else []
    logits = step(torch.tensor([1, 0, 1]), *position, *filled)[0]
    _, _, results = run(torch.tensor([[1]]))
    difference = float((logits[0] - results.logits[0, -1]).abs().max())
    if not difference <= _bundles.TOLERANCE:
        raise ExportError(f"a step from empty states differs from the model's first by {difference:.3g}")
    return starts


def _framing(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What a tokenizer puts before and behind a source."""
    if getattr(tokenizer, "convert_ids_to_tokens", None) is None:
        return [], []
    plain = tokenizer(_TEXTS[0], add_special_tokens=False).input_ids
    whole = tokenizer(_TEXTS[0]).input_ids
    before = next((at for at in range(len(whole)) if whole[at : at + len(plain)] == plain), 0)
    return whole[:before], whole[before + len(plain) :]


def _of_encoder_decoder(
    model: Any, tokenizer: Any, out: pathlib.Path, special: tuple[Any, Any], flags: list[str]
) -> Bundle:
    import torch

    try:
        from optimum.exporters.onnx import onnx_export_from_model
    except ImportError as error:
        raise ExportError(
            f"encoder-decoders are exported by another package: {error} (pip install optimum-onnx)"
        ) from error
    begin, end = special
    if begin is None:
        settings = (getattr(model, "generation_config", None), model.config)
        starts = [getattr(one, "decoder_start_token_id", None) for one in settings]
        begin = next((start for start in starts if start is not None), None)
    begin, ends = _special(model, tokenizer, begin, end)
    before, behind = _framing(tokenizer)
    if len(before) > 1 or len(behind) > 1:
        raise ExportError(
            f"the tokenizer puts {before} before sources and {behind} behind them; one token is taken"
        )
    said = _bundles.flags_of(begin, ends, None)
    for place, ids in (("begin", before), ("end", behind)):
        said += [f"--source-{place}", tokenizer.convert_ids_to_tokens(ids[0]) if ids else ""]
    with tempfile.TemporaryDirectory(prefix="beamwright-") as scratch:
        folder = pathlib.Path(scratch)
        configured = [module for module in model.modules() if hasattr(module, "config")]
        before_export = copy.deepcopy([module.config for module in configured])
        task = "text2text-generation-with-past"
        try:
            onnx_export_from_model(model, folder, task=task, do_validation=False, no_post_process=True)
        except Exception as error:
            raise ExportError(f"optimum does not export {type(model).__name__}: {error}") from error
        for module, config in zip(configured, before_export, strict=True):
            module.config = config  # the exporter leaves its own settings
        vocabulary = _vocabulary(model, tokenizer, folder)
        graphs = [folder / "encoder_model.onnx", folder / "decoder_with_past_model.onnx"]
        guesses, notes = _bundles.run_init(graphs, (vocabulary, vocabulary), out, [*said, *flags])

    def reference(source: Any, tokens: Sequence[int], _: Any) -> Sequence[float]:
        ids = tokenizer(source).input_ids if isinstance(source, str) else source
        read = {"input_ids": torch.tensor([ids]), "decoder_input_ids": torch.tensor([list(tokens[:-1])])}
        with torch.no_grad():
            logits = model(**read, use_cache=False).logits[0]
        log_probs = torch.log_softmax(logits.double(), -1)
        return [float(log_probs[place, token]) for place, token in enumerate(tokens[1:])]

    draw = torch.Generator().manual_seed(1)
    sources: list[Any] = (
        [*_TEXTS]
        if callable(getattr(tokenizer, "convert_ids_to_tokens", None))
        else [torch.randint(model.config.vocab_size, [length], generator=draw).tolist() for length in (1, 4, 9)]
    )
    return _bundles.Bundle(
        out, tuple(guesses), tuple(notes), _bundles.compare(out, sources, reference, "transformers")
    )


def _set_starts(out: pathlib.Path, starts: dict[str, float]) -> None:
    """Of states that `init` took to start at zero, and that start elsewhere."""
    path = out / "model.textproto"
    text = path.read_text(encoding="utf-8")
    for state, start in starts.items():
        if start:
            pattern = rf'(input:\s*"{re.escape(state)}"[^}}]*?constant:\s*)0\b'
            text, count = re.subn(pattern, rf"\g<1>{start:g}", text)
            if count != 1:
                raise ExportError(f"{path} has no `constant: 0` for state {state!r}")
    path.write_text(text, encoding="utf-8")


def _compare(bundle: pathlib.Path, model: Any, tokenizer: Any) -> str:
    """Continues nothing and two prompts, and asks the model, without its cache, about each token."""
    import torch

    draw = torch.Generator().manual_seed(1)
    size = model.config.vocab_size
    prompts = [[], *(torch.randint(size, [length], generator=draw).tolist() for length in (1, 7))]
    largest, count = 0.0, 0
    with _bundles.opened(bundle) as served:
        described = served.describe()
        begin, ends = _bundles.begin_of(described, bundle), _bundles.ends_of(described, bundle)
        for prompt in [[token for token in prompt if token not in ends] for prompt in prompts]:
            best = served.decode(
                prompt=prompt, beam_size=1, n_best=1, max_length=len(prompt) + _CHECKED_TOKENS, min_length=0
            ).best
            logits = model(input_ids=torch.tensor([[begin, *best.tokens]])).logits[0].double()
            expected = torch.log_softmax(logits, -1)
            for place, own in enumerate(best.token_log_probs):
                theirs = float(expected[place, best.tokens[place]])
                largest, count = max(largest, abs(own - theirs)), count + 1
                if not abs(own - theirs) <= _bundles.TOLERANCE:
                    raise ExportError(
                        f"{bundle} was written, and it decodes otherwise than transformers: token {place} of "
                        f"{list(best.tokens)} has the log-probability {own:.6f}, with transformers {theirs:.6f}"
                    )
        _compare_texts(served, tokenizer)
    return (
        f"Its answers to {len(prompts)} prompts agree with transformers: {count} log-probabilities differ by "
        f"{largest:.1e} at most."
    )


def _compare_texts(served: Any, tokenizer: Any) -> None:
    """ExportError if a text becomes other tokens than the tokenizer makes of it."""
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        return
    for text in _TEXTS:
        theirs = list(tokenizer.encode(text, add_special_tokens=False))
        answer = served.decode(prompt=text, beam_size=1, n_best=1, max_length=len(theirs) + 1).best
        if list(answer.tokens[: len(theirs)]) != theirs:
            raise ExportError(
                f"{text!r} becomes {list(answer.tokens[: len(theirs)])}, by the tokenizer {theirs}"
            )
