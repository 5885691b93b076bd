#!/usr/bin/env python3
"""Writes what optimum makes of transformers' models of speech and pictures, with random weights, as `optimum-cli export
onnx` leaves it: graphs and the JSON files of configuration, preprocessor and tokenizer. texts.json names recordings
and pictures of this repository, with the answers of transformers' own `generate` to them.

Usage: speech_export.py OUT [MODEL...]   (optimum-onnx 0.1.0, transformers 4.57.3, and what requirements-pytorch.txt
names)
"""

import argparse
import json
import pathlib
import sys
import tempfile
import wave

import numpy as np
import onnx
import torch
import transformers
from optimum.exporters.onnx import onnx_export_from_model
from PIL import Image
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from archives import pack  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
WAVES = sorted((HERE.parents[2] / "models" / "digits-en").glob("spoken-*.wav"))
PICTURES = [HERE.parents[1] / "engine" / "picture" / "data" / name for name in ("colour.png", "colour.jpg", "grey.png")]
SECONDS = 3  # that Whisper's encoder reads
LETTERS = "abcdefghijklmnopqrstuvwxyz.,'"
WORDS = ["th", "the", "in", "an", "er", "on", "re", "and", "Ġth", "Ġthe", "Ġa", "Ġin", "ing"]
SPECIAL = "endoftext startoftranscript en de translate transcribe startoflm startofprev nospeech notimestamps".split()


TIMES_SEED = 10
TIMES = [f"{i * 0.02:.2f}" for i in range(50 * SECONDS + 1)]


def byte_level_tokenizer(times=()):
    """A small byte-level BPE with Whisper's special tokens, and those of times."""
    tokens = ["Ġ", *LETTERS, *WORDS]
    merges = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("e", "r"), ("o", "n"), ("r", "e"), ("an", "d"),
              ("Ġ", "th"), ("Ġ", "the"), ("Ġ", "a"), ("Ġ", "in"), ("in", "g")]  # fmt: skip
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([f"<|{name}|>" for name in SPECIAL])
    tokenizer.add_tokens([f"<|{time}|>" for time in times])
    return tokenizer


def samples_of(path):
    with wave.open(str(path)) as file:
        assert file.getframerate() == 16000 and file.getnchannels() == 1
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


def spread_of(name):
    if name.startswith("decoder.model.decoder"):  # TrOCR's, which normalises the sum of token and position
        return 0.3 if "embed_tokens" in name else 0.1 if name.endswith("bias") else 0.5
    return 0.15 if "embed_tokens" in name else 0.5


def with_weights(module, end, seed=6):
    """Random weights whose answers change with the sound, do not repeat one token, and end sometimes."""
    torch.manual_seed(seed)
    decoder = module.get_decoder()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" not in name and "encoder.embed_positions" not in name:
                parameter.normal_(0, spread_of(name))
        norm = getattr(decoder, "layer_norm", None) or getattr(decoder, "norm", None) or decoder.layers[-1].final_layer_norm
        norm.weight.fill_(5)
        if hasattr(decoder, "layer_norm"):  # Whisper's, before the product with its own embedding
            norm.bias.copy_(11 * decoder.embed_tokens.weight[end])
        else:
            decoder.embed_tokens.weight[end] *= 2
    return module.eval()


def one_window(module, features, options, tokenizer):
    """With times, `generate` moves through the sound; this is what the first window says."""
    made = module.generation_config
    begin = [made.decoder_start_token_id, tokenizer.token_to_id(f"<|{options['language']}|>"), made.task_to_id[options["task"]]]
    ends = {name: getattr(made, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")}
    processors = transformers.LogitsProcessorList([
        transformers.SuppressTokensAtBeginLogitsProcessor(made.begin_suppress_tokens, len(begin)),
        transformers.SuppressTokensLogitsProcessor(made.suppress_tokens),
        transformers.WhisperTimeStampLogitsProcessor(made, begin_index=len(begin)),
    ])  # fmt: skip
    ids = transformers.GenerationMixin.generate(
        module, input_features=features, decoder_input_ids=torch.tensor([begin]), logits_processor=processors,
        generation_config=transformers.GenerationConfig(max_length=made.max_length, **ends, num_beams=options["beam_size"]),
    )  # fmt: skip
    return [id for id in ids[0].tolist()[len(begin):] if id != made.eos_token_id]


def whisper(times=(), seed=6):
    """With times: answers have them."""
    tokenizer = byte_level_tokenizer(times)
    ids = {name: tokenizer.token_to_id(f"<|{name}|>") for name in SPECIAL}
    size = tokenizer.get_vocab_size()
    config = transformers.WhisperConfig(
        vocab_size=size, num_mel_bins=80, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, d_model=16,
        max_source_positions=50 * SECONDS, max_target_positions=40, pad_token_id=ids["endoftext"],
        bos_token_id=ids["endoftext"], eos_token_id=ids["endoftext"], decoder_start_token_id=ids["startoftranscript"],
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    module = with_weights(transformers.WhisperForConditionalGeneration(config), ids["endoftext"], seed)
    module.generation_config = transformers.GenerationConfig(
        bos_token_id=ids["endoftext"], eos_token_id=ids["endoftext"], pad_token_id=ids["endoftext"],
        decoder_start_token_id=ids["startoftranscript"], max_length=36, is_multilingual=True,
        suppress_tokens=[3, *(ids[name] for name in SPECIAL[1:])], begin_suppress_tokens=[0, ids["endoftext"]],
        lang_to_id={"<|en|>": ids["en"], "<|de|>": ids["de"]},
        task_to_id={"translate": ids["translate"], "transcribe": ids["transcribe"]},
        no_timestamps_token_id=ids["notimestamps"], return_timestamps=False, max_initial_timestamp_index=50,
    )  # fmt: skip
    extractor = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=SECONDS)

    def answer(path, options):
        features = extractor(samples_of(path), sampling_rate=16000, return_tensors="pt").input_features
        if times:
            return one_window(module, features, options, tokenizer)
        ids = module.generate(
            features, language=options["language"], task=options["task"], num_beams=options["beam_size"]
        )
        return [id for id in ids[0].tolist() if id != config.eos_token_id]

    def language_of(path):
        features = extractor(samples_of(path), sampling_rate=16000, return_tensors="pt").input_features
        return tokenizer.id_to_token(int(module.detect_language(features)[0]))[2:-2]

    answer.language_of = language_of
    asked = [(str(path.name), {"language": language, "task": "transcribe", "beam_size": beam_size})
             for path in WAVES for language in ("en", "de") for beam_size in (1, 4)]  # fmt: skip
    shapes = {"nb_max_frames": 100 * SECONDS}
    files = ("encoder_model", "decoder_model_merged")
    return module, tokenizer, extractor, asked, answer, "automatic-speech-recognition-with-past", shapes, files


def moonshine():
    """A BPE that falls back to bytes, as Llama 2 has it."""
    words = ["▁", *LETTERS, "th", "the", "in", "an", "▁th", "▁the", "▁a", "ing"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {token: id for id, token in enumerate(["<unk>", "<s>", "</s>", *bytes_, *words])}
    merges = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("▁", "th"), ("▁th", "e"), ("▁", "a"), ("in", "g")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    config = transformers.MoonshineConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=24, encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=2, encoder_num_attention_heads=2, decoder_num_attention_heads=2,
        encoder_num_key_value_heads=2, decoder_num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1,
        eos_token_id=2, pad_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    module = with_weights(transformers.MoonshineForConditionalGeneration(config), 2)
    module.generation_config = transformers.GenerationConfig(
        bos_token_id=1, eos_token_id=2, pad_token_id=2, decoder_start_token_id=1, max_length=30,
        suppress_tokens=list(range(3, 259)),
    )  # fmt: skip
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=False)

    def answer(path, options):
        values = extractor(samples_of(path), sampling_rate=16000, return_tensors="pt").input_values
        ids = module.generate(values, num_beams=options["beam_size"])
        return [id for id in ids[0].tolist()[1:] if id != config.eos_token_id]

    asked = [(path.name, {"beam_size": beam_size}) for path in WAVES for beam_size in (1, 4)]
    files = ("encoder_model", "decoder_model_merged")
    return module, tokenizer, extractor, asked, answer, "automatic-speech-recognition-with-past", {}, files


def trocr():
    tokenizer = byte_level_tokenizer()
    begin, end = tokenizer.token_to_id("<|startoftranscript|>"), tokenizer.token_to_id("<|endoftext|>")
    ids = {"pad_token_id": end, "eos_token_id": end, "bos_token_id": begin, "decoder_start_token_id": begin}
    vision = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=32, patch_size=8
    )
    text = transformers.TrOCRConfig(
        vocab_size=tokenizer.get_vocab_size(), d_model=16, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=24,
        max_position_embeddings=40, cross_attention_hidden_size=16, is_decoder=True, add_cross_attention=True, **ids,
    )  # fmt: skip
    joined = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)
    for name, id in ids.items():
        setattr(joined, name, id)
    module = transformers.VisionEncoderDecoderModel(config=joined)
    module.get_decoder = lambda: module.decoder.model.decoder
    with_weights(module, end, seed=9)
    del module.get_decoder
    module.generation_config = transformers.GenerationConfig(
        max_length=30, num_beams=4, length_penalty=2.0, early_stopping=True, no_repeat_ngram_size=3, **ids
    )
    processor = transformers.ViTImageProcessor(
        size={"height": 32, "width": 32}, resample=3, image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5]
    )

    def answer(path, options):
        values = processor(Image.open(path).convert("RGB"), return_tensors="pt").pixel_values
        ids = module.generate(values, num_beams=options["beam_size"])
        return [id for id in ids[0].tolist()[1:] if id != end]

    asked = [(path.name, {"beam_size": beam_size}) for path in PICTURES for beam_size in (1, 4)]
    files = ("encoder_model", "decoder_model", "decoder_with_past_model")
    return module, tokenizer, processor, asked, answer, "image-to-text-with-past", {}, files


MODELS = {"whisper_speech": whisper, "whisper_times": lambda: whisper(TIMES, TIMES_SEED), "moonshine_speech": moonshine, "trocr_picture": trocr}


def export(module, task, shapes, files, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        onnx_export_from_model(module, made, task=task, do_validation=False, **shapes)
        for name in files:
            graph = onnx.load_model(f"{made}/{name}.onnx")
            for node in graph.graph.node:
                node.doc_string = ""
                del node.metadata_props[:]
            onnx.save_model(graph, folder / f"{name}.onnx")
        for name in ("config.json", "generation_config.json"):
            (folder / name).write_bytes((pathlib.Path(made) / name).read_bytes())


STATIC_LENGTH = 40  # places of the static cache


class StaticStep(torch.nn.Module):
    """A step of Whisper's decoder whose keys and values are a StaticCache, written in place at `cache_position`."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, decoder_input_ids, encoder_hidden_states, cache_position, *past):
        own = transformers.StaticCache(config=self.module.config, max_cache_len=STATIC_LENGTH)
        for layer, keys, values in zip(own.layers, past[::2], past[1::2]):
            layer.lazy_initialization(keys)
            layer.keys, layer.values = keys.clone(), values.clone()
        cache = transformers.EncoderDecoderCache(own, transformers.DynamicCache(config=self.module.config))
        hidden = self.module.model.decoder(
            input_ids=decoder_input_ids, encoder_hidden_states=encoder_hidden_states, past_key_values=cache,
            cache_position=cache_position, position_ids=cache_position[None],
        ).last_hidden_state  # fmt: skip
        return (self.module.proj_out(hidden), *(tensor for layer in own.layers for tensor in (layer.keys, layer.values)))


def export_static(module, folder):
    folder.mkdir(parents=True, exist_ok=True)
    config = module.config
    rows, heads = 2, config.decoder_attention_heads
    past = [torch.zeros(rows, heads, STATIC_LENGTH, config.d_model // heads) for _ in range(2 * config.decoder_layers)]
    names = [f"{kind}_{layer}" for layer in range(config.decoder_layers) for kind in ("key", "value")]
    by_row = {0: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        StaticStep(module),
        (torch.ones(rows, 1, dtype=torch.int64), torch.zeros(rows, config.max_source_positions, config.d_model), torch.tensor([3]), *past),
        folder / "decoder_model.onnx", dynamo=True, external_data=False,
        input_names=["decoder_input_ids", "last_hidden_state", "cache_position", *(f"past_{name}" for name in names)],
        output_names=["logits", *(f"present_{name}" for name in names)],
        dynamic_shapes={"decoder_input_ids": by_row, "encoder_hidden_states": by_row, "cache_position": None, "past": (by_row,) * len(past)},
    )  # fmt: skip
    graph = onnx.load_model(folder / "decoder_model.onnx")
    for node in graph.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    onnx.save_model(graph, folder / "decoder_model.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    arguments = parser.parse_args()
    for name in arguments.models or MODELS:
        module, tokenizer, preprocessor, asked, answer, task, shapes, files = MODELS[name]()
        answers = []
        for source, options in asked:
            ids = answer(next(path for path in (*WAVES, *PICTURES) if path.name == source), options)
            answers.append({"source": source, **options, "text": tokenizer.decode(ids, skip_special_tokens=True), "ids": ids})
        folder = arguments.out / name
        export(module, task, shapes, files, folder / "optimum")
        tokenizer.save(str(folder / "optimum" / "tokenizer.json"))
        preprocessor.save_pretrained(folder / "optimum")
        (folder / "texts.json").write_text(json.dumps(answers, indent=1) + "\n")
        if name == "whisper_speech":
            export_static(module, folder / "static")
            heard = {path.name: answer.language_of(path) for path in WAVES}
            (folder / "languages.json").write_text(json.dumps(heard, indent=1) + "\n")
        pack(folder)


if __name__ == "__main__":
    main()
