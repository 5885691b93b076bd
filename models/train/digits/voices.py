"""Speaks random strings of digits with synthetic voices: WAV files at 16 kHz, and `list.tsv` with what is said.

    voices.py OUT --engine espeak|flite|festival|kokoro --count N [--seed N] [--held-out] [--kokoro FOLDER]

The first three are Debian's packages. Kokoro-82M speaks from an ONNX file and tables of styles (README.md says
where they come from); its voices are blended at random, which gives more voices than the files have. --held-out speaks
with the four of its voices that training never hears, unblended.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sounds import RATE, read, resampled, write

WORDS = dict(zip("0123456789o", "zero one two three four five six seven eight nine oh".split()))
ACCENTS = "en-us en-us en-gb en-gb-x-rp en-gb-scotland en-029 en-us-nyc en-gb-x-gbclan en-gb-x-gbcwmd".split()
VARIANTS = ("m1 m2 m3 m4 m5 m6 m7 m8 f1 f2 f3 f4 f5 klatt klatt2 klatt3 klatt4 adam Alex Alicia Andrea Andy Annie "
            "belinda benjamin caleb david Denis ed edward Gene Hugo john Lee linda max Michael Mike paul quincy rob "
            "robert steph victor zac anika travis sandro shelby norbert grandma grandpa").split()
HELD_OUT = ("af_nova", "am_liam", "bf_lily", "bm_lewis")
# Kokoro's phonemes: capitals are diphthongs.
AMERICAN = {"0": ["zˈɪɹO", "zˈiɹO"], "1": ["wˈʌn"], "2": ["tˈu"], "3": ["θɹˈi"], "4": ["fˈɔɹ"], "5": ["fˈIv"],
            "6": ["sˈɪks"], "7": ["sˈɛvən", "sˈɛvᵊn"], "8": ["ˈAt"], "9": ["nˈIn"], "o": ["ˈO"]}
BRITISH = AMERICAN | {"0": ["zˈɪəɹQ", "zˈɪːɹQ"], "1": ["wˈʌn", "wˈɒn"], "2": ["tˈuː"], "3": ["θɹˈiː"],
                      "4": ["fˈɔː"], "o": ["ˈQ"]}

Spoken = tuple[str, str, np.ndarray]  # digits, voice, samples


def draw_digits(draw: np.random.Generator) -> str:
    count = draw.choice([1, 2, 3, 4, 5, 6], p=[0.3, 0.15, 0.15, 0.15, 0.15, 0.1])
    return "".join(draw.choice(list(WORDS), count, p=[0.095] * 10 + [0.05]))


def draw_text(draw: np.random.Generator, digits: str, mark: str = ",") -> str:
    gaps = draw.choice([" ", f"{mark} "], len(digits), p=[0.6, 0.4])
    return "".join(WORDS[digit] + gap for digit, gap in zip(digits, gaps)).strip(f"{mark} ")


def espeak(count: int, draw: np.random.Generator) -> Iterator[Spoken]:
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/said.wav"
        for _ in range(count):
            digits = draw_digits(draw)
            voice = f"{draw.choice(ACCENTS)}+{draw.choice(VARIANTS)}"
            subprocess.run(["espeak-ng", "-v", voice, "-s", str(draw.integers(110, 230)), "-p",
                            str(draw.integers(20, 80)), "-w", file, draw_text(draw, digits)], check=True)
            yield digits, voice, read(file)


def flite(count: int, draw: np.random.Generator) -> Iterator[Spoken]:
    pitches = {"kal16": 105, "awb": 120, "rms": 100, "slt": 170}
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/said.wav"
        for _ in range(count):
            digits = draw_digits(draw)
            voice = draw.choice(list(pitches))
            pitch = pitches[voice] * draw.uniform(0.8, 1.25)
            subprocess.run(["flite", "-voice", voice, "--setf", f"duration_stretch={draw.uniform(0.75, 1.4):.2f}",
                            "--setf", f"int_f0_target_mean={pitch:.0f}", "-t", draw_text(draw, digits), "-o", file],
                           check=True)
            yield digits, voice, read(file)


def festival(count: int, draw: np.random.Generator) -> Iterator[Spoken]:
    voices = ("kal_diphone", "ked_diphone", "cmu_us_slt_arctic_hts")
    with tempfile.TemporaryDirectory() as folder:
        for voice in voices:
            said = [draw_digits(draw) for _ in range(count // len(voices))]
            script = [f"(voice_{voice})"]
            for i, digits in enumerate(said):
                script += [f"(Parameter.set 'Duration_Stretch {draw.uniform(0.75, 1.4):.2f})",
                           f'(utt.save.wave (utt.synth (Utterance Text "{draw_text(draw, digits)}"))'
                           f' "{folder}/{i}.wav")']
            subprocess.run(["festival", "--pipe"], input="\n".join(script).encode(), check=True)
            for i, digits in enumerate(said):
                yield digits, voice, read(f"{folder}/{i}.wav")


def kokoro(count: int, draw: np.random.Generator, folder: Path, held_out: bool) -> Iterator[Spoken]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "kokoro.onnx", options, providers=["CPUExecutionProvider"])
    tokens = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))["vocab"]
    styles = {file.stem: np.fromfile(file, np.float32).reshape(-1, 256)
              for file in sorted((folder / "voices").glob("*.bin"))}
    names = [name for name in styles if (name in HELD_OUT) == held_out]
    english = [name for name in names if name[0] in "ab"]
    foreign = [name for name in names if name[0] not in "ab"]
    for _ in range(count):
        digits = draw_digits(draw)
        voice = draw.choice(english if held_out or draw.random() < 0.75 else foreign)
        style = styles[voice]
        british = voice[0] == "b" or (voice in foreign and draw.random() < 0.3)
        if not held_out and draw.random() < 0.6:
            other, share = draw.choice(english if draw.random() < 0.8 else names), draw.uniform(0.2, 0.8)
            style, voice = share * style + (1 - share) * styles[other], f"{voice}+{other}"
        gaps = draw.choice([" ", ", ", ". ", "; "], len(digits), p=[0.55, 0.25, 0.1, 0.1])
        said = "".join(draw.choice((BRITISH if british else AMERICAN)[digit]) + gap
                       for digit, gap in zip(digits, gaps)).rstrip(",.; ")
        said += draw.choice(["", ".", "?", "!", ","], p=[0.2, 0.4, 0.15, 0.15, 0.1])
        ids = [tokens[letter] for letter in said]
        # A row for each length of text: those of longer texts give the same words another prosody.
        row = min(len(ids) - 1 + draw.integers(0, 60), len(style) - 1)
        wave = session.run(None, {"tokens": np.array([[0, *ids, 0]], np.int64), "style": style[row][None],
                                  "speed": np.array([draw.uniform(0.7, 1.35)], np.float32)})[0].ravel()
        yield digits, voice, resampled(wave, 24000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--engine", choices=["espeak", "flite", "festival", "kokoro"], required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--kokoro", type=Path, help="folder with kokoro.onnx, vocab.json and voices/*.bin")
    args = parser.parse_args()
    draw = np.random.default_rng(args.seed)
    speakers: dict[str, Callable[[], Iterator[Spoken]]] = {
        "espeak": lambda: espeak(args.count, draw), "flite": lambda: flite(args.count, draw),
        "festival": lambda: festival(args.count, draw),
        "kokoro": lambda: kokoro(args.count, draw, args.kokoro, args.held_out)}
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "list.tsv").open("w", encoding="utf-8") as listing:
        for i, (digits, voice, wave) in enumerate(speakers[args.engine]()):
            name = f"{args.engine}-{i:05}"
            write(args.out / f"{name}.wav", wave)
            print(name, digits, voice, sep="\t", file=listing, flush=True)
    print(f"{args.out}: {i + 1} strings at {RATE} Hz")


if __name__ == "__main__":
    main()
