"""Writes golden.jsonl: requests to the bundle and their answers, computed the slow and obvious way.

Shares no code with anything else: it reads the weights out of the IR files (as stored, f16) with
the standard library, runs the network in double precision with NumPy, and searches by sorting all
pairs of every step, never stopping early. Only requests are kept whose answers survive noise on
every log-probability that is far above the rounding of any correct implementation.

A line is a JSON object: `source`, `options` (DecodeOptions) and `hypotheses` (Hypothesis), both in
the JSON form of beamwright/v1/decode.proto.
"""

import argparse
import json
import random
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
NOISE = 1e-3
REPLICAS = 3
PENALTIES = (("LENGTH_PENALTY_NONE", None), ("LENGTH_PENALTY_POW", 0.6),
             ("LENGTH_PENALTY_POW", 1.0))
BEAMS = (1, 4, 8)
# Besides words of the list: unknown tokens, capitals, a single one, and cuts at the maximum length.
SPECIAL = {
    "g2p": (("café", {}), ("Brontë", {}), ("Beamwright", {}), ("x", {}),
            ("recurrent", {"max_length": 1}), ("recurrent", {"max_length": 5})),
    "p2g": (("K AE1 F ?", {}), ("EH1", {}), ("B IY1 M R AY2 T", {"max_length": 1}),
            ("B IY1 M R AY2 T", {"max_length": 5})),
}


def read_constants(xml: Path) -> dict[str, Array]:
    """Constants by layer name; compression to f16 has renamed the float ones."""
    dtypes = {"f16": "<f2", "f32": "<f4", "i64": "<i8", "i32": "<i4"}
    weights = xml.with_suffix(".bin").read_bytes()
    constants = {}
    for layer in ElementTree.parse(xml).iter("layer"):
        data = layer.find("data")
        if layer.get("type") != "Const" or data is None or data.get("element_type") not in dtypes:
            continue
        shape = [int(extent) for extent in (data.get("shape") or "").split(",") if extent.strip()]
        offset, size = int(data.get("offset", 0)), int(data.get("size", 0))
        value = np.frombuffer(weights[offset:offset + size], dtypes[data.get("element_type", "")])
        value = value.reshape(shape)
        name = (layer.get("name") or "").removesuffix("_compressed")
        constants[name] = value if value.dtype.kind == "i" else value.astype(np.float64)
    return constants


def lstm(weights: dict[str, Array], name: str, x: Array, h: Array, c: Array,
         ) -> tuple[Array, Array]:
    z = x @ weights[f"{name}.W"].T + h @ weights[f"{name}.R"].T + weights[f"{name}.B"]
    forget, enter, cell, leave = np.split(z, 4, axis=1)
    c = c / (1 + np.exp(-forget)) + np.tanh(cell) / (1 + np.exp(-enter))
    return np.tanh(c) / (1 + np.exp(-leave)), c


class Member:
    """One network; an ensemble's layers begin with the member's prefix."""

    def __init__(self, encoder: dict[str, Array], decoder: dict[str, Array], prefix: str) -> None:
        def own(constants: dict[str, Array]) -> dict[str, Array]:
            return {name.removeprefix(prefix): value for name, value in constants.items()
                    if name.startswith(prefix)}

        self.encoder, self.decoder = own(encoder), own(decoder)

    def encode(self, source: list[int]) -> tuple[Array, list[Array]]:
        """memory [S, D], states h0, c0, h1, c1 [1, H]."""
        w = self.encoder
        x = w["source.table"][source]
        for layer in ("encoder0", "encoder1"):
            sides, last = [], []
            for side in ("forward", "backward"):
                name = f"{layer}.{side}.cell"
                h = c = np.zeros((1, w[f"{name}.R"].shape[1]))
                rows = []
                for row in x if side == "forward" else x[::-1]:
                    h, c = lstm(w, name, row[None], h, c)
                    rows.append(h[0])
                last.append(h)
                sides.append(np.array(rows if side == "forward" else rows[::-1]))
            x = np.concatenate(sides, axis=1)
        initial = np.tanh(np.concatenate(last, axis=1) @ w["bridge.weight"].T + w["bridge.bias"])
        return x, np.split(initial, 4, axis=1)

    def step(self, tokens: list[int], memory: Array, states: list[Array],
             ) -> tuple[Array, list[Array], Array]:
        """tokens [R], states [R, H] -> share of the logits [R, V], new states, attention [R, S]."""
        w = self.decoder
        h0, c0, h1, c1 = states
        table = w["factors.table"]
        x = table[w["factors.base_of_token"][tokens]] + table[w["factors.mark_of_token"][tokens]]
        h0, c0 = lstm(w, "cell0", x, h0, c0)
        scores = h0 @ (memory @ w["attention.key_weight"].T).T
        attention = np.exp(scores - scores.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        context = attention @ memory
        h1, c1 = lstm(w, "cell1", np.concatenate([h0, context], axis=1), h1, c1)
        features = np.concatenate([h1, context], axis=1)
        logits = features @ w["project.weight"].T + w["project.bias"]
        return logits, [h0, c0, h1, c1], attention


class Network:
    """All members: memories and states one after another, logits summed (each has its share)."""

    def __init__(self, bundle: Path) -> None:
        encoder = read_constants(bundle / "encoder.xml")
        decoder = read_constants(bundle / "decoder.xml")
        found = (re.match(r"member\d+\.", name) for name in encoder)
        prefixes = sorted({match[0] for match in found if match})
        self.prefixes = prefixes or [""]
        self.members = [Member(encoder, decoder, prefix) for prefix in self.prefixes]

    def encode(self, source: list[int]) -> tuple[list[Array], list[Array]]:
        encoded = [member.encode(source) for member in self.members]
        return [memory for memory, _ in encoded], [s for _, states in encoded for s in states]

    def step(self, tokens: list[int], memories: list[Array], states: list[Array],
             ) -> tuple[Array, list[Array], Array]:
        said = [member.step(tokens, memory, states[4 * i:4 * i + 4])
                for i, (member, memory) in enumerate(zip(self.members, memories))]
        return (sum(logits for logits, _, _ in said), [s for _, new, _ in said for s in new],
                sum(attention for _, _, attention in said) / len(said))


@dataclass
class Trail:
    tokens: list[int] = field(default_factory=list)
    log_probs: list[np.float32] = field(default_factory=list)
    total: float = 0.0
    reason: str = ""

    def then(self, token: int, log_prob: np.float32) -> "Trail":
        return Trail([*self.tokens, token], [*self.log_probs, log_prob],
                     self.total + float(log_prob))


class Search:
    def __init__(self, network: Network, begin: int, end: int) -> None:
        self.network, self.begin, self.end = network, begin, end

    def run(self, source: list[int], beam: int, max_length: int,
            noise: np.random.Generator | None = None) -> list[Trail]:
        """Every hypothesis that finished or was cut, in no particular order."""
        memory, states = self.network.encode(source)
        live, finished = [Trail()], []
        for _ in range(max_length):
            tokens = [path.tokens[-1] if path.tokens else self.begin for path in live]
            logits, states, _ = self.network.step(tokens, memory, states)
            shifted = logits - logits.max(axis=1, keepdims=True)
            log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            if noise is not None:
                log_probs += noise.uniform(-NOISE / 2, NOISE / 2, log_probs.shape)
            log_probs = log_probs.astype(np.float32)
            # All pairs: best score first, then the better parent, then the lower token.
            pairs = sorted((-(path.total + float(log_probs[rank, token])), rank, token)
                           for rank, path in enumerate(live) for token in range(logits.shape[1]))
            parents, survivors = [], []
            for place, (_, rank, token) in enumerate(pairs):
                path = live[rank].then(token, log_probs[rank, token])
                if token != self.end:
                    parents.append(rank)
                    survivors.append(path)
                elif place < beam:
                    path.reason = "FINISH_REASON_EOS"
                    finished.append(path)
                if len(survivors) == beam:
                    break
            if beam == 1 and finished:
                return finished
            live, states = survivors, [state[parents] for state in states]
        for path in live:
            path.reason = "FINISH_REASON_LENGTH"
        return finished + live


def score(path: Trail, alpha: float | None) -> float:
    # Options are single precision on the wire.
    return path.total / len(path.tokens) ** float(np.float32(alpha)) if alpha else path.total


def n_best(paths: list[Trail], alpha: float | None, count: int) -> list[Trail]:
    return sorted(paths, key=lambda p: (-score(p, alpha), len(p.tokens), p.tokens))[:count]


def is_steady(answers: list[list[Trail]], alpha: float | None, count: int) -> bool:
    """The same list from every replica, no two neighbours in it (or just below) nearly equal."""
    lists = [[path.tokens for path in n_best(paths, alpha, count)] for paths in answers]
    scores = [score(path, alpha) for path in n_best(answers[0], alpha, count + 1)]
    gaps = [better - worse for better, worse in zip(scores, scores[1:])]
    return all(tokens == lists[0] for tokens in lists) and min(gaps, default=1) > NOISE


class Sources:
    """Text to ids, as the bundle's model.textproto says for the task."""

    def __init__(self, bundle: Path, task: str) -> None:
        tokens = (bundle / "source.vocab").read_text(encoding="utf-8").splitlines()
        self.known = {token: i for i, token in enumerate(tokens)}
        self.is_word = task == "g2p"

    def ids(self, text: str) -> list[int]:
        tokens = list(text.lower()) if self.is_word else text.split()
        return [self.known.get(token, self.known["<unk>"]) for token in tokens]


class Writer:
    """Turns sources into request lines."""

    def __init__(self, bundle: Path, task: str) -> None:
        self.sources = Sources(bundle, task)
        self.joint = " " if task == "g2p" else ""
        self.tokens = (bundle / "target.vocab").read_text(encoding="utf-8").splitlines()
        begin, end = self.tokens.index("<s>"), self.tokens.index("</s>")
        self.search = Search(Network(bundle), begin, end)

    def lines(self, source: str, limits: dict[str, int]) -> list[str]:
        """A line for every beam size and penalty, or nothing if any answer is unsteady."""
        ids = self.sources.ids(source)
        max_length = limits.get("max_length", 2 * len(ids) + 10)
        lines = []
        for beam in BEAMS:
            answers = [self.search.run(ids, beam, max_length)]
            answers += [self.search.run(ids, beam, max_length, np.random.default_rng(replica))
                        for replica in range(REPLICAS)]
            for name, alpha in PENALTIES:
                # Fewer than the beam for one of the penalties: an early stop may then come sooner.
                count = max(1, beam // 2) if alpha == 0.6 else beam
                if not is_steady(answers, alpha, count):
                    return []
                options: dict[str, Any] = {"beam_size": beam, "n_best": count,
                                           "length_penalty": name}
                if alpha:
                    options["length_penalty_alpha"] = alpha
                found = [self.hypothesis(path, alpha) for path in n_best(answers[0], alpha, count)]
                lines.append(json.dumps({"source": source, "options": options | limits,
                                         "hypotheses": found}, ensure_ascii=False))
        return lines

    def hypothesis(self, path: Trail, alpha: float | None) -> dict[str, Any]:
        ended = path.reason == "FINISH_REASON_EOS"
        text = self.joint.join(self.tokens[i] for i in (path.tokens[:-1] if ended else path.tokens))
        return {"tokens": path.tokens, "text": text, "finish_reason": path.reason,
                "token_log_probs": [float(str(p)) for p in path.log_probs],
                "log_prob": path.total, "score": score(path, alpha)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--task", choices=sorted(SPECIAL), default="g2p")
    parser.add_argument("--words", type=Path, required=True,
                        help="sources to choose from, one a line")
    parser.add_argument("--count", type=int, default=36, help="sources besides the special cases")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    writer = Writer(args.bundle, args.task)
    words = args.words.read_text(encoding="utf-8").splitlines()
    random.Random(args.seed).shuffle(words)
    lines: list[str] = []
    for source, limits in SPECIAL[args.task]:
        found = writer.lines(source, limits)
        if not found:
            print(f"left out, unsteady: {source} {limits}")
        lines += found
    kept = tried = 0
    for word in words:
        if kept == args.count:
            break
        tried += 1
        found = writer.lines(word, {})
        lines += found
        kept += bool(found)
    text = "".join(line + "\n" for line in lines)
    (args.bundle / "golden.jsonl").write_text(text, encoding="utf-8")
    print(f"{len(lines)} requests; kept {kept} of {tried} sources")


if __name__ == "__main__":
    main()
