"""Other programs for English pronunciation, run on given words: answers by word, and seconds taken."""

import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

from data import Entries, Tokens

Answers = dict[Tokens, list[Tokens]]


def phonetisaurus(train: Entries, words: list[Tokens], n_best: int) -> tuple[Answers, float]:
    """PyPI phonetisaurus 0.3.0: aligned n-grams (order 8, its default), trained on `train`.

    The seconds are those of one prediction of all words, with the model loaded once.
    """
    with tempfile.TemporaryDirectory() as folder:
        lexicon, model = Path(folder) / "train.txt", Path(folder) / "model.fst"
        lexicon.write_text("".join(f"{''.join(word)} {' '.join(said)}\n"
                                   for word, references in train.items() for said in references),
                           encoding="utf-8")
        program = [sys.executable, "-m", "phonetisaurus"]
        started = time.monotonic()
        subprocess.run([*program, "train", "--model", model, lexicon], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"Phonetisaurus trained in {time.monotonic() - started:.0f} s\n", file=sys.stderr)
        started = time.monotonic()
        done = subprocess.run(
            [*program, "predict", "--model", model, "--nbest", str(n_best)], check=True,
            input="".join("".join(word) + "\n" for word in words), encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - started
    answers: Answers = {word: [] for word in words}
    for line in done.stdout.splitlines():
        word, *said = line.split()
        answers[tuple(word)].append(tuple(said))
    return answers, seconds


def g2p_en(train: Entries, words: list[Tokens], n_best: int) -> tuple[Answers, float]:
    """PyPI g2p-en 2.1.0: its GRU network, greedy, as published.

    It was trained on CMUdict without our split, so it has seen most test words. Its dictionary
    look-up, part-of-speech tagger and number speller are left out: they need downloads, and with the
    dictionary nothing would be measured.
    """
    del train, n_best
    stand_in = types.ModuleType("nltk")
    stand_in.pos_tag = stand_in.download = None
    stand_in.data = types.SimpleNamespace(find=lambda path: path)
    corpus, tokenize = types.ModuleType("nltk.corpus"), types.ModuleType("nltk.tokenize")
    corpus.cmudict = types.SimpleNamespace(dict=dict)
    tokenize.TweetTokenizer = lambda: types.SimpleNamespace(tokenize=str.split)
    inflect = types.ModuleType("inflect")
    inflect.engine = lambda: None
    sys.modules.update({"nltk": stand_in, "nltk.corpus": corpus, "nltk.tokenize": tokenize,
                        "inflect": inflect})
    from g2p_en import G2p  # Only here: the stand-ins must come first.

    network = G2p()
    started = time.monotonic()
    answers = {word: [tuple(network.predict("".join(word)))] for word in words}
    return answers, time.monotonic() - started


PEERS = {"Phonetisaurus 0.3.0": phonetisaurus, "g2p-en 2.1.0, greedy": g2p_en}
