"""llama.cpp over recurrent language models of recurrent_models.py's shapes, by the Python binding `llama-cpp-python`.

Weights are random, in GGUF files as llama.cpp's own converters and llama-quantize lay them out: in Q8_0 all matrices but
RWKV-7's low-rank ones and Mamba-2's convolution are 8-bit. One process, no tokenizer, greedy by NumPy's argmax.
"""

import ctypes
import os
import pathlib

import gguf
import llama_cpp
import numpy as np
from harness import measure

VERSION = llama_cpp.__version__
KINDS = {"f32": gguf.GGMLQuantizationType.F32, "Q8_0": gguf.GGMLQuantizationType.Q8_0}
MOST = 32    # sequences
BATCH = 512  # tokens of a prompt in one call, llama.cpp's default

_keep_quiet = llama_cpp.llama_log_callback(lambda *_: None)


class _File:
    def __init__(self, path, architecture, size, kind):
        self._writer = gguf.GGUFWriter(path, architecture)
        self._random = np.random.default_rng(1)
        self._kind = KINDS[kind]
        self._writer.add_tokenizer_model("no_vocab")
        self._writer.add_vocab_size(size.vocabulary)
        self._writer.add_context_length(1 << 20)
        self._writer.add_embedding_length(size.width)
        self._writer.add_block_count(size.layers)
        self._writer.add_head_count(0)
        self.add = self._writer

    def matrix(self, name, outputs, inputs, *, quantized=True):
        values = self._random.normal(0, inputs**-0.5, (outputs, inputs)).astype(np.float32)
        kind = self._kind if quantized else gguf.GGMLQuantizationType.F32
        self._writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)

    def vector(self, name, *shape, low=-0.5, high=0.5):
        self._writer.add_tensor(name, self._random.uniform(low, high, shape).astype(np.float32))

    def norm(self, name, width, *, bias=True):
        self.vector(f"{name}.weight", width, low=0.9, high=1.1)
        if bias:
            self.vector(f"{name}.bias", width, low=-0.1, high=0.1)

    def close(self):
        self._writer.write_header_to_file()
        self._writer.write_kv_data_to_file()
        self._writer.write_tensors_to_file()
        self._writer.close()


def _rwkv7(file, size):
    width, ranks = size.width, {"w": 64, "a": 64, "v": 32, "g": 128}
    file.add.add_feed_forward_length(4 * width)
    file.add.add_layer_norm_eps(1e-5)
    file.add.add_wkv_head_size(64)
    file.add.add_decay_lora_rank(ranks["w"])
    file.add.add_iclr_lora_rank(ranks["a"])
    file.add.add_value_residual_mix_lora_rank(ranks["v"])
    file.add.add_gate_lora_rank(ranks["g"])
    file.matrix("token_embd.weight", size.vocabulary, width)
    file.norm("token_embd_norm", width)
    file.norm("output_norm", width)
    file.matrix("output.weight", size.vocabulary, width)
    for block in (f"blk.{layer}." for layer in range(size.layers)):
        file.norm(block + "attn_norm", width)
        file.norm(block + "attn_norm_2", width)
        for name, rank in ranks.items():
            # The first layer has a "v" of no use, of the rank of "a".
            rank = ranks["a"] if name == "v" and block == "blk.0." else rank
            if name != "g":
                file.vector(f"{block}time_mix_{name}0.weight", width)
            file.matrix(f"{block}time_mix_{name}1.weight", rank, width, quantized=False)
            file.matrix(f"{block}time_mix_{name}2.weight", width, rank, quantized=False)
        file.vector(block + "time_mix_lerp_fused.weight", 6, 1, 1, width, low=0, high=1)
        for name in ("k_k", "k_a", "r_k"):
            file.vector(f"{block}time_mix_{name}.weight", width)
        for name in ("key", "value", "receptance", "output"):
            file.matrix(f"{block}time_mix_{name}.weight", width, width)
        file.norm(block + "time_mix_ln", width)
        file.vector(block + "channel_mix_lerp_k.weight", 1, 1, width, low=0, high=1)
        file.matrix(block + "channel_mix_key.weight", 4 * width, width)
        file.matrix(block + "channel_mix_value.weight", width, 4 * width)


def _mamba2(file, size):
    width, head, columns, taps = size.width, 64, 128, 4
    inner, heads = 2 * width, 2 * width // head
    channels = inner + 2 * columns
    file.add.add_feed_forward_length(0)
    file.add.add_layer_norm_rms_eps(1e-5)
    file.add.add_ssm_conv_kernel(taps)
    file.add.add_ssm_inner_size(inner)
    file.add.add_ssm_state_size(columns)
    file.add.add_ssm_time_step_rank(heads)
    file.add.add_ssm_group_count(1)
    file.matrix("token_embd.weight", size.vocabulary, width)  # the output layer's, too
    file.norm("output_norm", width, bias=False)
    for block in (f"blk.{layer}." for layer in range(size.layers)):
        file.norm(block + "attn_norm", width, bias=False)
        file.matrix(block + "ssm_in.weight", inner + channels + heads, width)
        file.vector(block + "ssm_conv1d.weight", channels, taps)
        file.vector(block + "ssm_conv1d.bias", channels)
        file.vector(block + "ssm_dt.bias", heads, low=-4, high=-1)
        file.vector(block + "ssm_a", heads, 1, low=-8, high=-1)
        file.vector(block + "ssm_d", heads, 1)
        file.vector(block + "ssm_norm.weight", 1, inner, low=0.9, high=1.1)
        file.matrix(block + "ssm_out.weight", width, inner)


def write(path: pathlib.Path, name: str, size, kind: str) -> None:
    """A GGUF file of a model of recurrent_models.SIZES, unless it is there."""
    if path.exists():
        return
    partial = path.with_suffix(".partial")
    file = _File(partial, name, size, kind)
    {"rwkv7": _rwkv7, "mamba2": _mamba2}[name](file, size)
    file.close()
    os.replace(partial, path)


class Model:
    def __init__(self, path: pathlib.Path, vocabulary: int, threads: int) -> None:
        llama_cpp.llama_log_set(_keep_quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._vocabulary = vocabulary
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = 2048 * MOST
        params.n_seq_max = MOST
        params.n_batch = params.n_ubatch = BATCH
        params.n_threads = params.n_threads_batch = threads
        self._context = self._model and llama_cpp.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp does not load {path}")
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, MOST)

    def close(self) -> None:
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def _decode(self, tokens, positions, sequences, wanted):
        batch = self._batch
        batch.n_tokens = len(tokens)
        for i, (token, position, sequence, want) in enumerate(zip(tokens, positions, sequences, wanted, strict=True)):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, want
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        if llama_cpp.llama_decode(self._context, batch) != 0:
            raise RuntimeError("llama_decode failed")

    def _clear(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)

    def _write_tokens(self, requests: int, length: int) -> None:
        self._clear()
        tokens = [0] * requests
        for position in range(length):
            self._decode(tokens, [position] * requests, range(requests), [1] * requests)
            logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._context), (requests, self._vocabulary))
            tokens = logits.argmax(-1).tolist()

    def _read_prompt(self, ids: list[int]) -> None:
        self._clear()
        for begin in range(0, len(ids), BATCH):
            piece = ids[begin:begin + BATCH]
            last = int(begin + len(piece) == len(ids))
            self._decode(piece, range(begin, begin + len(piece)), [0] * len(piece), [0] * (len(piece) - 1) + [last])
        llama_cpp.llama_synchronize(self._context)

    def greedy(self, requests: int, length: int, seconds: float) -> float:
        """Tokens a second of `requests` sequences of `length` in one batch."""
        return requests * length / measure.seconds_of(lambda: self._write_tokens(requests, length), seconds)

    def prompt(self, ids: list[int], seconds: float) -> float:
        """Tokens a second of one prompt."""
        return len(ids) / measure.seconds_of(lambda: self._read_prompt(ids), seconds)
