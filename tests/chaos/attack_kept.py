"""Attacks on what a server keeps for a caller: prompts and states, segments, texts that another model rewrites."""

import functools
import itertools
import json
import random

from attack_calls import (
    Attack, DECODE, MIB, OIP, OPTION_STATE, RULE_DECODE, RULE_SPEECH, call, channel, decode_request, field, fields, option,
    post, unread,
)  # fmt: skip

RECOGNIZE = "/beamwright.v1.RecognizeService/Recognize"
PROMPT = field(3, field(4, field(3, 1)))  # a source of a model that reads prompts alone
SHORT = field(option("beam_size"), 1) + field(option("max_length"), 1)


def prompt(length):
    return SHORT + field(option("target_prefix"), field(2, field(1, bytes(random.choices(range(2, 16), k=length)))))


@functools.cache
def state(server):
    """The state behind a prompt, signed by the server."""
    answer = channel(server).unary_unary(DECODE + "Decode")(
        decode_request(PROMPT, prompt(1000) + field(OPTION_STATE, 1), "bird")
    )
    decoded = fields(fields(answer)[1][0])[1][0]
    return fields(decoded)[10][0]


def replay(count, changes=False):
    def run(server, number, stop):
        old = state(server)
        sent = old[:-1] + bytes([old[-1] ^ 1]) if changes else old
        sources = field(3, field(8, sent)) * count
        return call(DECODE + "Decode", decode_request(sources, prompt(20) + field(OPTION_STATE, 1), "bird"))(
            server, number, stop
        )

    return run


def stream(model, pieces, n_best=1):
    """A segment for each frame, of 32 s of noise a piece."""
    rules = b"".join(field(number, 1) for number in (1, 2, 3))
    options = field(option("beam_size"), n_best) + field(option("n_best"), n_best)
    config = field(1, model) + field(3, options) + field(4, b"") + field(6, rules)
    return [field(1, config)] + [field(2, random.randbytes(MIB))] * pieces


def listen(messages):
    """A stream whose answers are read."""

    def run(server, _number, _stop):
        answers = channel(server).stream_stream(RECOGNIZE)(iter(messages), timeout=30)
        return "answers" if sum(1 for _ in answers) > 0 else "no answer"

    return run


NUMBERS = itertools.count(1)


def sequence(_=None):
    """Pieces of one sequence, sent without a look at the answers."""
    number = next(NUMBERS)
    parameter = lambda name, value: field(4, field(1, name) + field(2, value))  # noqa: E731
    samples = MIB // 4
    tensor = field(1, "source_audio") + field(2, "FP32") + field(3, 1) + field(3, samples)
    piece = field(1, "digits-en") + parameter("sequence_id", field(2, number)) + field(5, tensor) + field(7, bytes(MIB))
    return [piece + parameter("sequence_start", field(1, 1))] + [piece] * 40


def sequences(server, number, stop):
    return unread(OIP + "ModelStreamInfer", sequence(), 4)(server, number, stop)


def translation(text, format_):
    return post("/translate", json.dumps({"q": text, "source": "en", "target": "fr", "format": format_}))


KEPT = [
    Attack(
        "prompts that fill the prefix cache",
        (RULE_DECODE,),
        call(DECODE + "Decode", lambda: decode_request(PROMPT, prompt(20_000), "bird")),
        arguments=("--prefix-cache-bytes", str(64 * MIB)),
    ),
    Attack("a state replayed by 4,096 sources", (RULE_DECODE,), replay(4096)),
    Attack("the same with a wrong signature", (RULE_DECODE,), replay(4096, changes=True)),
    Attack("a segment a frame, 64 best", (RULE_SPEECH,), listen(stream("digits-en", 4, 64))),
    Attack("the same, 40 unread", (RULE_SPEECH,), unread(RECOGNIZE, stream("digits-en", 40, 64), 10)),
    Attack("the same, rewritten", (RULE_SPEECH,), listen(stream("written", 4))),
    Attack("the same, rewritten, 40 unread", (RULE_SPEECH,), unread(RECOGNIZE, stream("written", 40), 10)),
    Attack("40 MiB on 16 sequences, unread", (OIP + "ModelStreamInfer",), sequences),
    Attack("/translate: 200,000 sentences", ("POST /translate",), translation("w3! " * 200_000, "text")),
    Attack("/translate: 150,000 paragraphs", ("POST /translate",), translation("<p>w3!" * 150_000, "html")),
]
