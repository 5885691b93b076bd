"""Writes small random models in the forms in which toolkits export transducers and CTC models.

    export.py OUT [--only NAME ...]   (writes OUT/NAME.tar.gz)

Names of ports, shapes, metadata and token files are those that icefall, NeMo (by its own exporter and
by sherpa-onnx's scripts), Hugging Face and PaddleOCR write; the weights are random, so that files are
small and the texts are nonsense. PyTorch 2.8, onnx and onnxruntime (for the 8-bit files) are needed;
tests only read what is committed.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from archives import pack  # noqa: E402

PIECES = ["▁the", "▁a", "s", "ed", "▁to", "ing", "er", "▁b", "o", "n", "t", "▁he", "l", "re", "▁in",
          "y", "d"]
BINS = 80
WIDTH = 32
LAYERS = 2


def add_metadata(path: Path, **metadata: object) -> None:
    model = onnx.load(path)
    del model.metadata_props[:]
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, str(value)
    onnx.save(model, path)


def rename_output(path: Path, old: str, new: str) -> None:
    model = onnx.load(path)
    for node in model.graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
    for value in model.graph.output:
        value.name = new if value.name == old else value.name
    onnx.save(model, path)


def export(module: nn.Module, arguments: tuple[object, ...], path: Path, inputs: list[str],
           outputs: list[str], axes: dict[str, dict[int, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), arguments, str(path), opset_version=13, dynamo=False,
                          input_names=inputs, output_names=outputs, dynamic_axes=axes)


def write_tokens(path: Path, tokens: list[str]) -> None:
    path.write_text("".join(f"{token} {i}\n" for i, token in enumerate(tokens)), encoding="utf-8")


def quantize(path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_dynamic(str(path), str(path.with_suffix(".int8.onnx")),
                         weight_type=QuantType.QInt8)


class Subsampled(nn.Module):
    """x [N, T, bins] -> [N, (T - 1) // 2, width], the frames of recurrent layers."""

    def __init__(self, bidirectional: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv1d(BINS, WIDTH, 3, stride=2)
        side = WIDTH // 2 if bidirectional else WIDTH
        self.layers = nn.LSTM(WIDTH, side, LAYERS, batch_first=True, bidirectional=bidirectional)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.project.weight.data *= 8  # so that frames differ

    def frames(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)

    def forward(self, x: Tensor, x_lens: Tensor) -> tuple[Tensor, Tensor]:
        y, _ = self.layers(self.frames(x))
        return self.project(y), torch.div(x_lens - 1, 2, rounding_mode="floor")


class WithStates(nn.Module):
    """Subsampled, but states come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Subsampled()

    def forward(self, x: Tensor, state0: Tensor, state1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (state0, state1) = self.inner.layers(self.inner.frames(x), (state0, state1))
        return self.inner.project(y), state0, state1


class StatelessPredictor(nn.Module):
    """Embedding and a grouped convolution over the context; ids below 0 read as zeros."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, WIDTH)
        self.conv = nn.Conv1d(WIDTH, WIDTH, context, groups=WIDTH // 4, bias=False)
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, y: Tensor) -> Tensor:
        embedded = self.embedding(y.clamp(min=0)) * (y >= 0).unsqueeze(-1)
        read = self.conv(embedded.permute(0, 2, 1)).permute(0, 2, 1)
        return self.project(torch.relu(read).squeeze(1))


class SumJoiner(nn.Module):
    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.output = nn.Linear(WIDTH, tokens)
        self.output.weight.data *= 6  # so that distributions are not flat
        self.output.bias.data[0] += 1  # and blank is frequent

    def forward(self, encoder_out: Tensor, decoder_out: Tensor) -> Tensor:
        return self.output(torch.tanh(encoder_out + decoder_out))


def icefall_predictor_and_joiner(out: Path) -> None:
    tokens = ["<blk>", "<sos/eos>", "<unk>", *PIECES]
    context = 2
    export(StatelessPredictor(len(tokens), context), (torch.zeros(10, context, dtype=torch.int64),),
           out / "decoder.onnx", ["y"], ["decoder_out"], {"y": {0: "N"}, "decoder_out": {0: "N"}})
    add_metadata(out / "decoder.onnx", context_size=context, vocab_size=len(tokens))
    pair = (torch.rand(11, WIDTH), torch.rand(11, WIDTH))
    export(SumJoiner(len(tokens)), pair, out / "joiner.onnx", ["encoder_out", "decoder_out"],
           ["logit"], {name: {0: "N"} for name in ("encoder_out", "decoder_out", "logit")})
    add_metadata(out / "joiner.onnx", joiner_dim=WIDTH)
    write_tokens(out / "tokens.txt", tokens)


def icefall_offline(out: Path) -> None:
    """zipformer/export-onnx.py with a recurrent encoder: the whole utterance at once."""
    export(Subsampled(bidirectional=True), (torch.zeros(1, 100, BINS), torch.tensor([100])),
           out / "encoder.onnx", ["x", "x_lens"], ["encoder_out", "encoder_out_lens"],
           {"x": {0: "N", 1: "T"}, "x_lens": {0: "N"}, "encoder_out": {0: "N", 1: "T"},
            "encoder_out_lens": {0: "N"}})
    add_metadata(out / "encoder.onnx", model_type="zipformer2", version=1, model_author="k2-fsa",
                 comment="non-streaming zipformer2")
    icefall_predictor_and_joiner(out)
    for name in ("encoder", "decoder", "joiner"):
        quantize(out / f"{name}.onnx")


def streaming_lstm(path: Path, frames: int, open_time: bool) -> None:
    states = torch.zeros(LAYERS, 1, WIDTH), torch.zeros(LAYERS, 1, WIDTH)
    time = {1: "T"} if open_time else {}
    export(WithStates(), (torch.zeros(1, frames, BINS), *states), path, ["x", "state0", "state1"],
           ["encoder_out", "new_state0", "new_state1"],
           {"x": {0: "N", **time}, "encoder_out": {0: "N", **time},
            **{name: {1: "N"} for name in ("state0", "state1", "new_state0", "new_state1")}})
    add_metadata(path, model_type="lstm", version=1, model_author="k2-fsa", decode_chunk_len=4,
                 T=frames, num_encoder_layers=LAYERS, d_model=WIDTH, rnn_hidden_size=WIDTH)


def icefall_lstm(out: Path) -> None:
    """lstm_transducer_stateless2/export-onnx.py: states in and out; `chunk` of a fixed length, as it is there."""
    streaming_lstm(out / "encoder.onnx", 39, open_time=True)
    streaming_lstm(out / "encoder-chunk.onnx", 9, open_time=False)
    icefall_predictor_and_joiner(out)


class Cached(nn.Module):
    """Hands every state on, unchanged: the ports of an encoder whose layers keep caches."""

    def forward(self, x: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        return x[:, :4, :WIDTH] + 0, [state + 1 for state in states]


def icefall_zipformer2(out: Path) -> None:
    """zipformer/export-onnx-streaming.py: ports and metadata, with one layer and no network."""
    caches = {"cached_key_0": (16, 1, 8), "cached_nonlin_attn_0": (1, 1, 16, 8),
              "cached_val1_0": (16, 1, 8), "cached_val2_0": (16, 1, 8), "cached_conv1_0": (1, 8, 4),
              "cached_conv2_0": (1, 8, 4), "embed_states": (1, 8, 3, 4)}
    rows = {name: {0 if "conv" in name or name == "embed_states" else 1: "N"} for name in caches}
    states = [torch.zeros(shape) for shape in caches.values()]
    states.append(torch.zeros(1, dtype=torch.int64))
    names = [*caches, "processed_lens"]
    rows["processed_lens"] = {0: "N"}
    export(Cached(), (torch.zeros(1, 45, BINS), states), out / "encoder.onnx", ["x", *names],
           ["encoder_out", *(f"new_{name}" for name in names)],
           {"x": {0: "N"}, "encoder_out": {0: "N"}, **rows,
            **{f"new_{name}": axes for name, axes in rows.items()}})
    add_metadata(out / "encoder.onnx", model_type="zipformer2", version=1, model_author="k2-fsa",
                 comment="streaming zipformer2", decode_chunk_len=32, T=45, num_encoder_layers=1,
                 encoder_dims=WIDTH, cnn_module_kernels=9, left_context_len=16,
                 query_head_dims=8, value_head_dims=8, num_heads=1)


class ChannelsFirst(nn.Module):
    """audio_signal [B, bins, T] -> [B, width, T']."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Subsampled(bidirectional=True)

    def forward(self, audio_signal: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        y, lengths = self.inner(audio_signal.transpose(1, 2), length)
        return y.transpose(1, 2), lengths


class Prednet(nn.Module):
    """targets [B, U] -> [B, width, U], with states [layers, B, width]; blank reads as zeros."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens + 1, WIDTH, padding_idx=tokens)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS)

    def forward(self, targets: Tensor, target_length: Tensor, h: Tensor, c: Tensor,
                ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(self.embed(targets).transpose(0, 1), (h, c))
        return y.transpose(0, 1).transpose(1, 2), target_length + 0, h, c


class Joint(nn.Module):
    """[B, width, T] and [B, width, U] -> [B, T, U, tokens + 1 + durations]."""

    def __init__(self, columns: int, blank: int) -> None:
        super().__init__()
        self.enc = nn.Linear(WIDTH, WIDTH)
        self.pred = nn.Linear(WIDTH, WIDTH)
        self.joint_net = nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, columns))
        self.joint_net[1].weight.data *= 12
        self.joint_net[1].bias.data[blank] += 1

    def forward(self, encoder_outputs: Tensor, decoder_outputs: Tensor) -> Tensor:
        f = self.enc(encoder_outputs.transpose(1, 2)).unsqueeze(2)
        g = self.pred(decoder_outputs.transpose(1, 2)).unsqueeze(1)
        return torch.log_softmax(self.joint_net(f + g), dim=-1)


class DecoderJoint(nn.Module):
    def __init__(self, decoder: Prednet, joint: Joint) -> None:
        super().__init__()
        self.decoder, self.joint = decoder, joint

    def forward(self, encoder_outputs: Tensor, targets: Tensor, target_length: Tensor,
                input_states_1: Tensor, input_states_2: Tensor) -> tuple[Tensor, ...]:
        y, lengths, h, c = self.decoder(targets, target_length, input_states_1, input_states_2)
        return self.joint(encoder_outputs, y), lengths, h, c


def opened(**ranks: tuple[int, ...]) -> dict[str, dict[int, str]]:
    """The exporter's names for open axes."""
    return {name: {axis: f"{name}_dynamic_axes_{axis + 1}" for axis in axes}
            for name, axes in ranks.items()}


def nemo_encoder(path: Path) -> None:
    export(ChannelsFirst(), (torch.zeros(1, BINS, 100), torch.tensor([100])), path,
           ["audio_signal", "length"], ["outputs", "encoded_lengths"],
           opened(audio_signal=(0, 2), length=(0,), outputs=(0, 2), encoded_lengths=(0,)))


def nemo(out: Path) -> None:
    """NeMo's own export of a transducer: the predictor and the joint in one file."""
    nemo_encoder(out / "encoder-model.onnx")
    tokens = len(PIECES)
    module = DecoderJoint(Prednet(tokens), Joint(tokens + 1, tokens))
    states = torch.zeros(LAYERS, 1, WIDTH), torch.zeros(LAYERS, 1, WIDTH)
    export(module, (torch.zeros(1, WIDTH, 3), torch.zeros(1, 2, dtype=torch.int32),
                    torch.tensor([2], dtype=torch.int32), *states),
           out / "decoder_joint-model.onnx",
           ["encoder_outputs", "targets", "target_length", "input_states_1", "input_states_2"],
           ["outputs", "prednet_lengths", "output_states_1", "output_states_2"],
           opened(encoder_outputs=(0, 2), targets=(0, 1), target_length=(0,), input_states_1=(1,),
                  input_states_2=(1,), outputs=(0, 1, 2), prednet_lengths=(0,),
                  output_states_1=(1,), output_states_2=(1,)))
    add_metadata(out / "encoder-model.onnx", vocab_size=tokens, normalize_type="per_feature",
                 pred_rnn_layers=LAYERS, pred_hidden=WIDTH, subsampling_factor=2,
                 model_type="EncDecHybridRNNTCTCBPEModel", version=1, model_author="NeMo")
    write_tokens(out / "tokens.txt", [*PIECES, "<blk>"])


def nemo_tdt(out: Path) -> None:
    """sherpa-onnx's script for token-and-duration models: three files; names of states say nothing."""
    nemo_encoder(out / "encoder.onnx")
    tokens, durations = len(PIECES), 5
    states = torch.zeros(LAYERS, 1, WIDTH), torch.zeros(LAYERS, 1, WIDTH)
    export(Prednet(tokens), (torch.zeros(1, 2, dtype=torch.int32),
                             torch.tensor([2], dtype=torch.int32), *states),
           out / "decoder.onnx", ["targets", "target_length", "states.1", "onnx::LSTM_3"],
           ["outputs", "prednet_lengths", "states", "last"],
           {**opened(targets=(0, 1), target_length=(0,), outputs=(0, 2), prednet_lengths=(0,)),
            **{name: {1: f"{name}_dynamic_axes_1"}
               for name in ("states.1", "onnx::LSTM_3", "states", "last")}})
    rename_output(out / "decoder.onnx", "last", "162")  # which the exporter makes, but does not take
    export(Joint(tokens + 1 + durations, tokens), (torch.zeros(1, WIDTH, 3), torch.zeros(1, WIDTH, 2)),
           out / "joiner.onnx", ["encoder_outputs", "decoder_outputs"], ["outputs"],
           opened(encoder_outputs=(0, 2), decoder_outputs=(0, 2), outputs=(0, 1, 2)))
    add_metadata(out / "encoder.onnx", vocab_size=tokens, normalize_type="per_feature",
                 pred_rnn_layers=LAYERS, pred_hidden=WIDTH, subsampling_factor=2,
                 model_type="EncDecRNNTBPEModel", version=2, model_author="NeMo", feat_dim=BINS)
    write_tokens(out / "tokens.txt", [*PIECES, "<blk>"])


class CacheAware(nn.Module):
    def forward(self, audio_signal: Tensor, length: Tensor, channel: Tensor, time: Tensor,
                channel_len: Tensor) -> tuple[Tensor, ...]:
        return audio_signal[:, :WIDTH, ::2] + 0, length // 2, channel + 1, time + 1, channel_len + 1


def nemo_streaming(out: Path) -> None:
    """A cache-aware encoder: ports and metadata, with no network."""
    names = ["cache_last_channel", "cache_last_time", "cache_last_channel_len"]
    nexts = ["cache_last_channel_next", "cache_last_time_next", "cache_last_channel_next_len"]
    export(CacheAware(), (torch.zeros(1, BINS, 41), torch.tensor([41]), torch.zeros(1, 2, 7, WIDTH),
                          torch.zeros(1, 2, WIDTH, 8), torch.zeros(1, dtype=torch.int64)),
           out / "encoder.onnx", ["audio_signal", "length", *names],
           ["outputs", "encoded_lengths", *nexts],
           opened(audio_signal=(0, 2), length=(0,), outputs=(0, 2), encoded_lengths=(0,),
                  cache_last_channel=(0,), cache_last_time=(0,), cache_last_channel_len=(0,),
                  cache_last_channel_next=(0,), cache_last_time_next=(0,),
                  cache_last_channel_next_len=(0,)))
    add_metadata(out / "encoder.onnx", vocab_size=len(PIECES), window_size=41, chunk_shift=32,
                 cache_last_channel_dim1=2, cache_last_channel_dim2=7, cache_last_channel_dim3=WIDTH,
                 cache_last_time_dim1=2, cache_last_time_dim2=WIDTH, cache_last_time_dim3=8,
                 pred_rnn_layers=LAYERS, pred_hidden=WIDTH, subsampling_factor=2,
                 model_type="EncDecHybridRNNTCTCBPEModel", version=1, model_author="NeMo")


class CtcHead(nn.Module):
    """An encoder and a layer to log-probabilities."""

    def __init__(self, encoder: nn.Module, columns: int, blank: int) -> None:
        super().__init__()
        self.encoder, self.output = encoder, nn.Linear(WIDTH, columns)
        self.output.weight.data *= 4
        self.output.bias.data[blank] += 1

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        y, lengths = self.encoder(x, lengths)
        return torch.log_softmax(self.output(y), dim=-1), lengths


def ctc_icefall(out: Path) -> None:
    tokens = ["<blk>", "<sos/eos>", "<unk>", *PIECES]
    export(CtcHead(Subsampled(bidirectional=True), len(tokens), 0),
           (torch.zeros(1, 100, BINS), torch.tensor([100])), out / "model.onnx", ["x", "x_lens"],
           ["log_probs", "log_probs_len"],
           {"x": {0: "N", 1: "T"}, "x_lens": {0: "N"}, "log_probs": {0: "N", 1: "T"},
            "log_probs_len": {0: "N"}})
    add_metadata(out / "model.onnx", model_type="zipformer2_ctc", version=1, model_author="k2-fsa",
                 comment="non-streaming zipformer2 CTC")
    write_tokens(out / "tokens.txt", tokens)
    quantize(out / "model.onnx")


class ConvCtc(nn.Module):
    """NeMo's CTC export has one result, [B, T, V + 1], and takes [B, bins, T]."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.head = CtcHead(Subsampled(bidirectional=True), columns, columns - 1)

    def forward(self, audio_signal: Tensor, length: Tensor) -> Tensor:
        return self.head(audio_signal.transpose(1, 2) + 0 * length.view(-1, 1, 1), length)[0]


def ctc_nemo(out: Path) -> None:
    tokens = len(PIECES)
    export(ConvCtc(tokens + 1), (torch.zeros(1, BINS, 100), torch.tensor([100])), out / "model.onnx",
           ["audio_signal", "length"], ["logprobs"],
           opened(audio_signal=(0, 2), length=(0,), logprobs=(0, 1)))
    add_metadata(out / "model.onnx", vocab_size=tokens, normalize_type="per_feature",
                 subsampling_factor=2, model_type="EncDecCTCModelBPE", version=1, model_author="NeMo")
    write_tokens(out / "tokens.txt", [*PIECES, "<blk>"])


class Wav2vec(nn.Module):
    """Samples [batch, samples] -> logits [batch, frames, tokens]."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(1, WIDTH, 10, stride=5, bias=False), nn.GELU(),
                                    nn.Conv1d(WIDTH, WIDTH, 8, stride=4, bias=False), nn.GELU())
        self.lm_head = nn.Linear(WIDTH, tokens)
        self.lm_head.weight.data *= 200

    def forward(self, input_values: Tensor) -> Tensor:
        return self.lm_head(self.layers(input_values.unsqueeze(1)).transpose(1, 2))


def ctc_wav2vec(out: Path) -> None:
    """Hugging Face Optimum's export; the blank is <pad>, words are separated by |."""
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLU'"]
    export(Wav2vec(len(tokens)), (torch.rand(1, 400),), out / "model.onnx", ["input_values"],
           ["logits"], {"input_values": {0: "batch_size", 1: "sequence_length"},
                        "logits": {0: "batch_size", 1: "floor(sequence_length/20)"}})
    ids = {token: i for i, token in enumerate(tokens)}
    (out / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")


class Crnn(nn.Module):
    """A picture [N, 1, 32, W] -> [W / 4, N, columns] as CRNNs have it."""

    def __init__(self, columns: int, paddle: bool) -> None:
        super().__init__()
        self.paddle = paddle
        self.conv = nn.Sequential(nn.Conv2d(3 if paddle else 1, 8, 3, stride=(4, 2), padding=1),
                                  nn.ReLU(), nn.Conv2d(8, 8, 3, stride=(4, 2), padding=1), nn.ReLU())
        self.lstm = nn.LSTM(8 * (3 if paddle else 2), WIDTH // 2, bidirectional=True)
        self.fc = nn.Linear(WIDTH, columns)
        self.fc.weight.data *= 40

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).permute(3, 0, 1, 2).flatten(2)
        scores = self.fc(self.lstm(y)[0])
        return torch.softmax(scores.transpose(0, 1), dim=2) if self.paddle else scores


def ocr_crnn(out: Path) -> None:
    """Time first, logits, blank 0 before an alphabet."""
    alphabet = "0123456789abcdef"
    export(Crnn(len(alphabet) + 1, False), (torch.zeros(1, 1, 32, 100),), out / "model.onnx",
           ["input"], ["output"], {"input": {0: "batch", 3: "width"},
                                   "output": {0: "time", 1: "batch"}})
    (out / "alphabet.txt").write_text("".join(c + "\n" for c in alphabet), encoding="utf-8")


def ocr_paddle(out: Path) -> None:
    """Probabilities; the dictionary's lines come behind the blank, and a space behind them."""
    alphabet = "0123456789:¥"
    export(Crnn(len(alphabet) + 2, True), (torch.zeros(1, 3, 48, 100),), out / "model.onnx", ["x"],
           ["softmax_0.tmp_0"], {"x": {0: "DynamicDimension.0", 3: "DynamicDimension.1"},
                                 "softmax_0.tmp_0": {0: "DynamicDimension.2",
                                                     1: "DynamicDimension.3"}})
    (out / "dict.txt").write_text("".join(c + "\n" for c in alphabet), encoding="utf-8")


MODELS: tuple[Callable[[Path], None], ...] = (
    icefall_offline, icefall_lstm, icefall_zipformer2, nemo, nemo_tdt, nemo_streaming, ctc_icefall,
    ctc_nemo, ctc_wav2vec, ocr_crnn, ocr_paddle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", help="names of models")
    args = parser.parse_args()
    for number, make in enumerate(MODELS):
        if not args.only or make.__name__ in args.only:
            torch.manual_seed(number)
            make(args.out / make.__name__)
            pack(args.out / make.__name__)


if __name__ == "__main__":
    main()
