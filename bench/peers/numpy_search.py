"""Beam search in NumPy around a step in ONNX Runtime: what a team writes that has no search in its runtime.

The graph chooses the best tokens of each row, so that no logits leave it. Sources of different length are
padded and masked; requests that are done leave the batch when enough of them are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from peers import decoder
from peers.onnx_runtime import ort_session

NONE = np.float32(-1e30)


@dataclass
class Answer:
    """Best first."""
    tokens: list[list[int]]
    log_probs: list[float]


class Search:
    """Not thread-safe. beam: of every request."""

    def __init__(self, bundle: Path, beam: int, threads: int, operators: bool = False) -> None:
        self.beam = beam
        attends = decoder.Decoder(bundle).attention
        self.form, model = decoder.step_with_choice(bundle, beam, attends, operators)
        self.step = ort_session(model, threads)
        self.outputs = [output.name for output in self.step.get_outputs()]
        if self.form.attention:
            self.keys = ort_session(decoder.keys_model(bundle), threads)
            self.table = decoder.bundle_weights(bundle, "encoder")["table"]

    def memory(self, sources: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """What the step reads of the sources: memory, keys and mask, padded to the longest."""
        if not self.form.attention:
            return {}
        longest = max(map(len, sources))
        ids = np.zeros((len(sources), longest), np.int64)
        mask = np.full((len(sources), 1, longest), NONE, np.float32)
        for i, source in enumerate(sources):
            ids[i, :len(source)] = source
            mask[i, 0, :len(source)] = 0
        memory = self.table[ids]
        return {"memory": memory, "keys": self.keys.run(None, {"memory": memory})[0], "mask": mask}

    def decode(self, sources: Sequence[Sequence[int]], steps: Sequence[int], n_best: int = 1,
               ) -> list[Answer]:
        """Searches all sources at once; source i ends after steps[i] tokens. An end token is never
        chosen, as its bias in these bundles makes sure."""
        beam, words = self.beam, len(sources)
        reads = self.memory(sources)
        feed = {name: np.zeros((words * beam, self.form.hidden), np.float32)
                for name in self.form.states}
        tokens = np.zeros(words * beam, np.int64)
        sums = np.full((words, beam), NONE, np.float32)
        sums[:, 0] = 0  # all rows of a word are alike at first
        left = np.array(steps)
        alive = np.arange(words)  # numbers of the words that are still in the batch
        history: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        answers: list[Answer | None] = [None] * words
        for step in range(1, int(left.max()) + 1):
            best, ids, *states = self.step.run(self.outputs, feed | reads | {"token": tokens})
            now = len(alive)
            totals = (sums[:, :, None] + best.reshape(now, beam, beam + 1)).reshape(now, -1)
            chosen = np.argpartition(-totals, beam - 1, axis=1)[:, :beam]
            order = np.argsort(-np.take_along_axis(totals, chosen, 1), axis=1, kind="stable")
            chosen = np.take_along_axis(chosen, order, 1)
            sums = np.take_along_axis(totals, chosen, 1)
            parents = chosen // (beam + 1)
            chosen_tokens = np.take_along_axis(ids.reshape(now, -1), chosen, 1)
            history.append((alive, chosen_tokens, parents))
            for place in np.flatnonzero(left[alive] == step):
                answers[alive[place]] = _trace(history, alive[place], sums[place], n_best)
            rows = (np.arange(now)[:, None] * beam + parents).reshape(-1)
            tokens = chosen_tokens.reshape(-1)
            keep = left[alive] > step
            if not keep.any():
                break
            # Moving what attention reads costs: so not for every request that is done.
            if keep.sum() <= 0.75 * now:
                rows, tokens = rows.reshape(now, beam)[keep].reshape(-1), chosen_tokens[keep].reshape(-1)
                reads = {name: value[keep] for name, value in reads.items()}
                alive, sums = alive[keep], sums[keep]
            feed = {name: state[rows] for name, state in zip(self.form.states, states)}
        return answers


def _trace(history: list[tuple[np.ndarray, np.ndarray, np.ndarray]], word: int, sums: np.ndarray,
           n_best: int) -> Answer:
    slots = np.arange(n_best)
    reversed_tokens = []
    for alive, tokens, parents in reversed(history):
        place = int(np.searchsorted(alive, word))
        reversed_tokens.append(tokens[place, slots])
        slots = parents[place, slots]
    return Answer(np.array(reversed_tokens[::-1]).T.tolist(), sums[:n_best].tolist())
