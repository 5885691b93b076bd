"""Search by frames: transducers and CTC, without a server, in CPU time of a frame and stream."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import ours
from harness.measure import OURS, Bar, Workload

# Of a separate environment (bench/frames_requirements.txt).
PYTHON = ours.ROOT / "build/venv-frames/bin/python"
STREAMS, BEAM = 16, 4
CTC_BEAM = 16
WITHOUT = "the same call without"
NOTE = ("Every figure is CPU time of one thread for a frame of one stream, random weights; encoders are left out: "
        "sherpa-onnx's is measured and taken off, ours gets frames. The loop runs predictor and joiner of one "
        "hypothesis at a time in ONNX Runtime (bench/peers/frame_search.py). Ours decodes 64 sources in turn, as "
        "it keeps what a stateless predictor said of its last tokens; sherpa-onnx decodes the first 16. Each source is "
        "a call with the same hotwords, which the server checks and compiles once, as they stay known.")


def _models(folder: Path) -> Path:
    """Models, frames and bundles, made once."""
    made = folder / "frames"
    if not (made / "transducer/bundle/model.textproto").exists():
        subprocess.run([PYTHON, ours.ROOT / "bench/frame_models.py", made], check=True)
        files = made / "transducer"
        for name, predictor, joiner in (("bundle", "decoder", "joiner"),
                                        ("lstm-bundle", "lstm", "lstm-joiner")):
            subprocess.run([ours.BIN / "beamwright-graph", "init", files / f"{predictor}.onnx",
                            files / f"{joiner}.onnx", "--tokens", files / "tokens.txt", "--out",
                            files / name], check=True, stdout=subprocess.DEVNULL)
    return made


def _ours(bundle: Path, frames: Path, per_source: int, options: Path, beam: int, seconds: float,
          ) -> Callable[[], float]:
    def run() -> float:
        case = ours.decode(bundle, "--features", frames, "--options", options, "--beam", beam,
                           "--concurrency", STREAMS, "--threads", 1, "--seconds", seconds)[0]
        return case["cpu_seconds"] / (case["sentences"] * per_source)
    return run


def _peer(program: str, folder: Path, *flags: object) -> Callable[[], float]:
    def run() -> float:
        return ours.run_json([PYTHON, ours.ROOT / "bench/peers/frame_search.py", program, folder,
                              *flags])["seconds"]
    return run


def workloads(folder: Path, seconds: float, quick: bool) -> Iterator[Workload]:
    made = _models(folder)
    files, ctc = made / "transducer", made / "ctc"
    frames, per_source = files / "frames.npz", 400
    plain, hotwords = files / "beam.textproto", files / "hotwords.textproto"
    search = _ours(files / "bundle", frames, per_source, plain, BEAM, seconds)
    yield Workload(
        f"transducer, stateless predictor, V 500, J 512, beam {BEAM}, {STREAMS} streams",
        {OURS: search, "sherpa-onnx": _peer("sherpa", files, "--beam", BEAM, "--streams", STREAMS)},
        [Bar(2.5, text="2.5 x sherpa-onnx")], unit="us", note=NOTE)
    yield Workload(
        f"transducer, LSTM-640 predictor, V 500, beam {BEAM}, {STREAMS} streams",
        {OURS: _ours(files / "lstm-bundle", files / "lstm-frames.npz", 200, plain, BEAM, seconds),
         "one at a time": _peer("loop", files, "--beam", BEAM, "--streams", 1 if quick else 4)},
        [Bar(5, text="5 x one at a time")], unit="us")
    yield Workload(
        f"the first one with 1,000 hotwords of a call, {STREAMS} streams",
        {OURS: _ours(files / "bundle", frames, per_source, hotwords, BEAM, seconds), WITHOUT: search},
        [Bar(1 / 1.1, text="at most 10 % slower")], unit="us")
    peers = {"flashlight-text": _peer("flashlight", ctc, "--beam", CTC_BEAM),
             "pyctcdecode": _peer("pyctcdecode", ctc, "--beam", CTC_BEAM, "--streams", 4)}
    yield Workload(
        f"CTC with a 4-gram model, V 500, beam {CTC_BEAM}, {STREAMS} streams",
        {OURS: _ours(ctc / "bundle", ctc / "frames.npz", 400, ctc / "fusion.textproto", CTC_BEAM,
                     seconds), **peers},
        [Bar(5, ("pyctcdecode",), text="5 x pyctcdecode"),
         Bar(1, ("flashlight-text",), text="1.0 x flashlight-text")], unit="us")
