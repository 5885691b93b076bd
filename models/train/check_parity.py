"""Compares the exported graphs, run by OpenVINO, with golden.py's own arithmetic.

Random sources and tokens, teacher forced, several rows at a time; then every hypothesis in
golden.jsonl, whose log-probabilities OpenVINO must confirm. Prints the largest differences and
fails if one is above the limit.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import openvino as ov

from golden import SPECIAL, Network, Sources

STATES = ("h0_init", "c0_init", "h1_init", "c1_init")  # of each member
LIMIT = 1e-4
Tensors = dict[str, np.ndarray]


class Graphs:
    def __init__(self, bundle: Path, prefixes: list[str]) -> None:
        self.memories = [f"{prefix}memory" for prefix in prefixes]
        self.states = [f"{prefix}{state}" for prefix in prefixes for state in STATES]
        core = ov.Core()
        # Some processors would take bf16 otherwise.
        exact = {"INFERENCE_PRECISION_HINT": "f32"}
        self.encoder = core.compile_model(bundle / "encoder.xml", "CPU", exact)
        self.decoder = core.compile_model(bundle / "decoder.xml", "CPU", exact)

    def run(self, source: np.ndarray, tokens: np.ndarray) -> tuple[Tensors, Tensors]:
        encoded = self.encoder({"source": source})
        inputs = {name: encoded[name] for name in (*self.memories, *self.states)}
        decoded = self.decoder({"tokens": tokens, **inputs})
        return inputs, {name: decoded[name] for name in ("logits", "attention")}


def random_differences(graphs: Graphs, network: Network) -> dict[str, float]:
    rng = np.random.default_rng(1)
    characters = network.members[0].encoder["source.table"].shape[0]
    phonemes = network.members[0].decoder["factors.base_of_token"].shape[0]
    worst: dict[str, float] = {}

    def note(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        worst[name] = max(worst.get(name, 0.0), float(np.abs(ours - theirs).max()))

    for rows, length, time in ((1, 1, 1), (3, 7, 8), (5, 13, 11), (2, 28, 30)):
        source = rng.integers(0, characters, (rows, length))
        tokens = rng.integers(0, phonemes, (rows, time))
        encoded, decoded = graphs.run(source, tokens)
        for row in range(rows):
            memories, states = network.encode(source[row].tolist())
            for name, memory in zip(graphs.memories, memories):
                note(name, memory, encoded[name][row])
            for name, state in zip(graphs.states, states):
                note(name, state[0], encoded[name][row])
            for t in range(time):
                logits, states, attention = network.step([tokens[row, t]], memories, states)
                note("logits", logits[0], decoded["logits"][row, t])
                note("attention", attention[0], decoded["attention"][row, t])
    return worst


def golden_difference(graphs: Graphs, bundle: Path, task: str) -> float:
    def read(name: str) -> list[str]:
        return (bundle / name).read_text(encoding="utf-8").splitlines()

    sources, begin = Sources(bundle, task), read("target.vocab").index("<s>")
    worst = 0.0
    for request in map(json.loads, read("golden.jsonl")):
        source = sources.ids(request["source"])
        for hypothesis in request["hypotheses"]:
            tokens = hypothesis["tokens"]
            _, decoded = graphs.run(np.array([source]), np.array([[begin, *tokens[:-1]]]))
            logits = decoded["logits"][0].astype(np.float64)
            log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            chosen = log_probs[np.arange(len(tokens)), tokens]
            worst = max(worst, float(np.abs(chosen - hypothesis["token_log_probs"]).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--task", choices=sorted(SPECIAL), default="g2p")
    args = parser.parse_args()
    network = Network(args.bundle)
    graphs = Graphs(args.bundle, network.prefixes)
    worst = random_differences(graphs, network)
    worst["golden log-probabilities"] = golden_difference(graphs, args.bundle, args.task)
    for name, difference in worst.items():
        print(f"{name}: {difference:.2e}")
    if max(worst.values()) > LIMIT:
        raise SystemExit(f"a difference is above {LIMIT}")


if __name__ == "__main__":
    main()
