"""The served answers against other programs: `./dev frames-parity`.

    parity.py [--utterances N] [--torch]

Transducer: the texts of a model that was trained on tones (train_tones.py), against sherpa-onnx's
modified beam search on the same sounds. sherpa-onnx chooses the best of its beam by log-probability for
each token of its history, two before the first included, and takes the best pairs of a hypothesis and a
token before it merges, we after; so our list is put in its order, and an utterance counts where the
two best of that list are further apart than MARGIN. CTC: ctc_parity.py; streams: stream_parity.py. Fails
if a bar is missed.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ctc_parity
import numpy as np
import stream_parity
from served_tones import unpacked
from tones import RATE, features
from tones import utterances as made

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
TONES = unpacked("frames/exports/tones")
MARGIN, SAME_TEXTS = 1e-3, 0.995
BEAM, CTC_BEAM = 4, 16


class Server:
    """`beamwright-server` on free ports, for the `with` statement."""

    def __init__(self, bundle: Path) -> None:
        self.bundle, self.folder = bundle, tempfile.TemporaryDirectory()

    def __enter__(self) -> "Server":
        ports = Path(self.folder.name) / "ports"
        self.process = subprocess.Popen(
            [BIN / "beamwright-server", "--model-path", self.bundle, "--grpc-address", "127.0.0.1:0",
             "--http-address", "none", "--metrics-address", "none", "--admin-address", "none",
             "--ports-file", ports], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not ports.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server did not start on {self.bundle}")
            time.sleep(0.05)
        self.port = dict(map(str.split, ports.read_text().splitlines()))["grpc"]
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def decode(self, features: Path, *flags: object) -> list[dict[str, object]]:
        """The answers of the sources of an .npz file."""
        done = subprocess.run(
            [BIN / "beamwright", "decode", "--server", f"127.0.0.1:{self.port}", "--json",
             "--features", features, *map(str, flags)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"decode: {done.stderr}")
        return [json.loads(line)["result"]["decoded"] for line in done.stdout.splitlines()]


def init(out: Path, *arguments: object) -> Path:
    subprocess.run([BIN / "beamwright-graph", "init", *map(str, arguments), "--out", out], check=True,
                   stdout=subprocess.DEVNULL)
    return out


def sherpa_texts(sounds: list[np.ndarray]) -> list[str]:
    import sherpa_onnx

    recognizer = sherpa_onnx.OfflineRecognizer.from_transducer(
        encoder=str(TONES / "encoder.onnx"), decoder=str(TONES / "decoder.onnx"),
        joiner=str(TONES / "joiner.onnx"), tokens=str(TONES / "tokens.txt"), num_threads=1,
        decoding_method="modified_beam_search", max_active_paths=BEAM)
    texts = []
    for sound in sounds:
        stream = recognizer.create_stream()
        stream.accept_waveform(RATE, sound)
        recognizer.decode_stream(stream)  # alone: its batches pad
        texts.append(stream.result.text.strip())
    return texts


def transducer(utterances: int, work: Path, with_torch: bool) -> bool:
    sounds = [(labels, sound) for labels, sound, _ in made(utterances, 99)]
    sources = [features(sound) for _, sound in sounds]
    np.savez(work / "tones.npz", **{f"{i:05}": source for i, source in enumerate(sources)})
    bundle = init(work / "tones", *(TONES / f"{part}.onnx" for part in ("encoder", "decoder", "joiner")),
                  "--tokens", TONES / "tokens.txt")
    with Server(bundle) as server:
        answers = server.decode(work / "tones.npz", "--beam-size", BEAM, "--n-best", BEAM)
        good = True
        if with_torch:
            import rnnt_parity

            good = rnnt_parity.parity(server, work / "tones.npz", sources, TONES)
    theirs = sherpa_texts([sound for _, sound in sounds])
    counted = same = right = same_all = 0
    for (labels, _), answer, text in zip(sounds, answers, theirs):
        ranked = sorted(((one["log_prob"] / (len(one.get("tokens", [])) + 2), one.get("text", ""))
                         for one in answer["hypotheses"]), reverse=True)
        apart = ranked[0][0] - ranked[1][0] if len(ranked) > 1 else math.inf
        same_all += ranked[0][1] == text
        right += text == " ".join(f"t{label}" for label in labels)
        if apart > MARGIN:
            counted += 1
            same += ranked[0][1] == text
    print(f"transducer: {utterances} utterances, {100 * right / utterances:.1f} % right in sherpa-onnx; "
          f"the same text in {same_all} of all, in {same} of {counted} whose margin exceeds {MARGIN:g} "
          f"({100 * same / max(counted, 1):.2f} %; at least {100 * SAME_TEXTS:g} %)")
    return good and counted > 0 and same >= SAME_TEXTS * counted


def ctc(work: Path) -> bool:
    subprocess.run([sys.executable, ROOT / "bench/frame_models.py", work / "bench"], check=True)
    return (ctc_parity.equal_scores(Server, work)
            & ctc_parity.equal_word_scores(Server, work)
            & ctc_parity.equal_lexicon_scores(Server, work)
            & ctc_parity.best_scores(Server, work / "bench/ctc", CTC_BEAM))


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev frames-parity", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, default=400)
    parser.add_argument("--torch", action="store_true",
                        help="also against torchaudio 2.8 (rnnt_parity.py), of which pip loads 6 GB")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        good = [transducer(args.utterances, Path(work), args.torch), ctc(Path(work)),
                stream_parity.parity(Server, init, BIN / "beamwright", args.utterances, Path(work))]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
