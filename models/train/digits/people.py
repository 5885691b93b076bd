"""Recordings of people saying digits, out of Debian packages. They test; no training reads them.

    people.py FOLDER     fetches the packages with apt-get and unpacks them into FOLDER

| part | recordings | people |
|---|---|---|
| dev | single digits of tuxpaint-stamps-default (two people) and 1 to 8 of scid-data | 3 |
| test | single digits of asterisk-core-sounds-en-wav and -g722 (one person), saytime and csmash-data; | 5 |
|      | "two nine three four zero" and "five five" of pocketsphinx-testdata | |
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sounds import RATE

PACKAGES = ("asterisk-core-sounds-en-wav", "asterisk-core-sounds-en-g722", "saytime", "csmash-data", "scid-data",
            "tuxpaint-stamps-default", "pocketsphinx-testdata")
NAMES = "zero one two three four five six seven eight nine".split()


@dataclass
class Recording:
    person: str
    digits: str
    samples: np.ndarray


def sound(file: Path, *form: str) -> np.ndarray:
    """Any file that sox reads -> f32 at 16 kHz. `form` describes a file without a header to sox."""
    if not file.is_file():
        raise FileNotFoundError(file)
    done = subprocess.run(["sox", "-V1", "-D", *form, str(file), "-t", "s16", "-r", str(RATE), "-c", "1", "-"],
                          check=True, capture_output=True)
    return np.frombuffer(done.stdout, np.int16).astype(np.float32) / 32768


def g722(file: Path) -> np.ndarray:
    done = subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "g722", "-i", str(file), "-f", "s16le", "-ar",
                           str(RATE), "-ac", "1", "-"], check=True, capture_output=True)
    return np.frombuffer(done.stdout, np.int16).astype(np.float32) / 32768


def recordings(folder: Path, part: str) -> list[Recording]:
    share = folder / "usr/share"
    out = []
    for i, name in enumerate(NAMES):
        if part == "dev":
            stamps = share / "tuxpaint/stamps/symbols/math"
            out.append(Recording("tuxpaint", str(i), sound(stamps / f"{i}.ogg")))
            out.append(Recording("tuxpaint-gb", str(i), sound(stamps / f"{i}_en_GB.ogg")))
            if 1 <= i <= 8:
                out.append(Recording("scid", str(i), sound(share / f"scid/sounds/{i}.wav")))
            continue
        digits = share / "asterisk/sounds/en_US_f_Allison/digits"
        out.append(Recording("asterisk", str(i), sound(digits / f"{i}.wav")))
        out.append(Recording("asterisk-g722", str(i), g722(digits / f"{i}.g722")))
        out.append(Recording("saytime", str(i), sound(share / f"saytime/{i}.au", "-t", "ul", "-r", "8000", "-c", "1")))
        out.append(Recording("csmash", str(i), sound(share / f"games/csmash/wav/{name}.wav")))
    if part == "test":
        data = share / "pocketsphinx/test/data"
        raw = ("-t", "raw", "-r", "16000", "-e", "signed", "-b", "16", "-c", "1")
        out.append(Recording("tidigits", "29340", sound(data / "tidigits/dhd.2934z.raw", *raw)))
        out.append(Recording("cards", "55", sound(data / "cards/004.wav")))
    return out


def strings(singles: list[Recording], count: int, seed: int) -> list[Recording]:
    """Strings of 3 to 6 digits, cut together from one person's recordings with gaps of 0.05 to 0.4 s."""
    draw = np.random.default_rng(seed)
    by_person: dict[str, list[Recording]] = {}
    for single in singles:
        if len(single.digits) == 1:
            by_person.setdefault(single.person, []).append(single)
    out = []
    for person, own in by_person.items():
        for _ in range(count):
            chosen = [own[i] for i in draw.integers(0, len(own), draw.integers(3, 7))]
            pieces = [piece for single in chosen
                      for piece in (single.samples, np.zeros(int(RATE * draw.uniform(0.05, 0.4)), np.float32))]
            out.append(Recording(f"{person}, strings", "".join(single.digits for single in chosen),
                                 np.concatenate(pieces)))
    return out


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=folder, check=True)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)


if __name__ == "__main__":
    main()
