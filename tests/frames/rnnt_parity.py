"""Transducers against torchaudio 2.8 (`--torch`): sums over all alignments against rnnt_loss, and texts
against RNNTBeamSearch. Part of parity.py; the model is the one that hears tones."""

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import torchaudio
from tones import TONES

warnings.filterwarnings("ignore", category=UserWarning)  # that it will go
BLANK = 0
BEAM, SYMBOLS, UTTERANCES = 4, 10, 100
EQUAL = 1e-4  # of sums in f32 there
SAME_TEXTS = 0.98
Labels = tuple[int, ...]


class Model:
    """The three files in ONNX Runtime. For RNNTBeamSearch, whose blank is the last token, the state of
    the predictor is the context that it reads."""

    def __init__(self, folder: Path) -> None:
        self.encoder, self.predictor, self.joiner = (
            onnxruntime.InferenceSession(str(folder / f"{part}.onnx"))
            for part in ("encoder", "decoder", "joiner"))

    def encode(self, x: np.ndarray) -> np.ndarray:
        feed = {"x": x[None], "x_lens": np.array([len(x)], np.int64)}
        return self.encoder.run(["encoder_out"], feed)[0][0]

    def predict_contexts(self, contexts: np.ndarray) -> np.ndarray:
        return self.predictor.run(None, {"y": contexts})[0]

    def logits(self, frames: np.ndarray, labels: Labels) -> np.ndarray:
        """[frames, labels + 1, tokens]"""
        history = [-1, BLANK, *labels]
        contexts = np.array([history[u:u + 2] for u in range(len(labels) + 1)], np.int64)
        predicted = self.predict_contexts(contexts)
        rows = self.joiner.run(None, {
            "encoder_out": np.repeat(frames, len(predicted), axis=0),
            "decoder_out": np.tile(predicted, (len(frames), 1))})[0]
        return rows.reshape(len(frames), len(predicted), -1)

    # What RNNTBeamSearch calls.
    def predict(self, tokens: torch.Tensor, lengths: torch.Tensor,
                state: list | None) -> tuple[torch.Tensor, torch.Tensor, list]:
        if state is None:
            contexts = torch.tensor([[-1, BLANK]])
        else:
            contexts = torch.cat([state[0][0][:, 1:], tokens + 1], dim=1)
        said = self.predict_contexts(contexts.numpy())
        return torch.from_numpy(said)[:, None], lengths, [[contexts]]

    def join(self, frame: torch.Tensor, lengths: torch.Tensor, predicted: torch.Tensor,
             others: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        rows = self.joiner.run(None, {"encoder_out": frame[:, 0].numpy(),
                                      "decoder_out": predicted[:, 0].numpy()})[0]
        return torch.from_numpy(np.roll(rows, -1, axis=1))[:, None, None], lengths, others


def full_sums(model: Model, frames: list[np.ndarray], answers: list[dict[str, object]]) -> bool:
    apart = []
    for x, answer in zip(frames, answers):
        for one in answer["hypotheses"]:
            labels = tuple(one.get("tokens", []))
            loss = torchaudio.functional.rnnt_loss(
                torch.from_numpy(model.logits(x, labels))[None], torch.tensor([labels], dtype=torch.int32),
                torch.tensor([len(x)], dtype=torch.int32), torch.tensor([len(labels)], dtype=torch.int32),
                blank=BLANK, reduction="none")
            apart.append(abs(one["full_log_prob"] + float(loss[0])))
    print(f"transducer: {len(apart)} sums over all alignments are at most {max(apart):.2g} from torchaudio's "
          f"rnnt_loss (at most {EQUAL:g})")
    return max(apart) <= EQUAL


def texts(model: Model, frames: list[np.ndarray], answers: list[dict[str, object]]) -> bool:
    same = 0
    for x, answer in zip(frames, answers):
        # The scripted search takes tensors; its loop alone is plain Python.
        search = torchaudio.models.RNNTBeamSearch.__new__(torchaudio.models.RNNTBeamSearch)
        torch.nn.Module.__init__(search)
        search.model, search.blank, search.temperature = model, TONES, 1.0
        search.step_max_tokens, search.hypo_sort_key = SYMBOLS, lambda one: one[3]
        best = search._search(torch.from_numpy(x)[None], None, BEAM)[0]
        same += [token + 1 for token in best[0][1:]] == answer["hypotheses"][0].get("tokens", [])
    print(f"transducer, {SYMBOLS} tokens a frame: the same text as torchaudio's RNNTBeamSearch in {same} of "
          f"{len(answers)} (at least {100 * SAME_TEXTS:g} %)")
    return same >= SAME_TEXTS * len(answers)


def parity(server: object, path: Path, sounds: list[np.ndarray], folder: Path) -> bool:
    """server: of the model in `folder`; path: the features `sounds`, as requests have them."""
    model = Model(folder)
    frames = [model.encode(x) for x in sounds[:UTTERANCES]]
    shared = ["--beam-size", BEAM]
    summed = server.decode(path, *shared, "--n-best", BEAM, "--frame-order", "alignments", "--full-sum")
    several = server.decode(path, *shared, "--max-symbols-per-frame", SYMBOLS)
    return (full_sums(model, frames, summed[:UTTERANCES])
            & texts(model, frames, several[:UTTERANCES]))
