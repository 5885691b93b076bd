#!/usr/bin/env python3
"""OpenAI's Python package, unmodified, against POST /v1/completions of a language model: greedy answers are those of
`beamwright decode --prompt`; log-probabilities, stop texts, samples, streams, and what is refused.

Usage: openai_completions.py BIN MODEL TOOLS.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import openai
import tritonclient.grpc
import tritonclient.utils
from language_model import TOKENS, make_model
from served import check, server

MODEL = "bird"


def greedy(grpc, prompt, length):
    """(text behind the prompt, log-probabilities of its tokens), as the command line has them."""
    done = subprocess.run([pathlib.Path(sys.argv[1]) / "beamwright", "decode", "--server", grpc, "--json", "--model", MODEL,
                           "--beam-size", "1", "--max-length", str(length), "--prompt", prompt],
                          capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    best = json.loads(done.stdout)["result"]["decoded"]["hypotheses"][0]
    check(best["text"].startswith(prompt), best["text"])
    return best["text"][len(prompt):], best["token_log_probs"][best["prefix_length"]:]


def complete(client, prompt, **options):
    return client.completions.create(**{"model": MODEL, "prompt": prompt, "max_tokens": 8, "temperature": 0, **options})


def answers(client, grpc):
    for prompt in ("once upon", "a small bird", "sang"):
        text, log_probs = greedy(grpc, prompt, 8)
        plain = complete(client, prompt)
        check(plain.object == "text_completion" and plain.choices[0].text == text, f"{plain} and not {text!r}")
        check(plain.choices[0].finish_reason in ("stop", "length"), plain.choices[0].finish_reason)
        check(plain.usage.prompt_tokens == len(prompt.split()), f"{plain.usage}")
        check(plain.usage.total_tokens == plain.usage.prompt_tokens + len(log_probs), f"{plain.usage} of {len(log_probs)}")
        ids = [TOKENS.index(word) for word in prompt.split()]
        check(complete(client, ids).choices[0].text == text, "ids are not the text")
        check(complete(client, [prompt]).choices[0].text == text, "a list of one is not the text")
        full = complete(client, prompt, logprobs=3, echo=True).choices[0]
        check(full.text == prompt + text, full.text)
        check(np.allclose(full.logprobs.token_logprobs[len(ids):], log_probs), f"{full.logprobs} and not {log_probs}")
        check(all(len(top) == 3 for top in full.logprobs.top_logprobs[len(ids):]), f"{full.logprobs.top_logprobs}")
        check("".join(full.logprobs.tokens) == full.text, f"{full.logprobs.tokens} are not {full.text!r}")
        behind = complete(client, prompt, logprobs=3).choices[0]
        tokens, places = behind.logprobs.tokens, behind.logprobs.text_offset
        check("".join(tokens) == text and all(text[place:].startswith(token) for token, place in zip(tokens, places)),
              f"{tokens} at {places} are not {text!r}")
        check(all(not token or token in top for token, top in zip(tokens, behind.logprobs.top_logprobs)),
              f"{tokens}, {behind.logprobs.top_logprobs}")
        words = text.split()
        if len(words) > 2:
            cut = complete(client, prompt, stop=["no such", words[2]]).choices[0]
            check(cut.text == text[: text.index(words[2])] and cut.finish_reason == "stop", f"{cut} of {text!r}")
            letters = text.lstrip()[2:9]  # across the border of words, unless they are long
            cut = complete(client, prompt, stop=letters).choices[0]
            check(cut.text == text[: text.index(letters)] and cut.finish_reason == "stop", f"{cut} of {text!r}")
            ruled_out = complete(client, prompt, logit_bias={str(TOKENS.index(words[0])): -100}).choices[0].text
            check(not ruled_out.split() or ruled_out.split()[0] != words[0], ruled_out)
    favourite = complete(client, "once", logit_bias={str(TOKENS.index("sang")): 100}, max_tokens=3).choices[0]
    check(favourite.text.split() == ["sang"] * 3, favourite.text)
    wide = complete(client, "once", n=3, best_of=4)
    check([choice.index for choice in wide.choices] == [0, 1, 2], f"{wide}")
    check(len({choice.text for choice in wide.choices}) == 3, "equal hypotheses")
    beam = client.completions.create(model=MODEL, prompt="once", max_tokens=8, n=2,
                                     extra_body={"options": {"beam_size": 4, "length_penalty": "gnmt"}})
    check(len(beam.choices) == 2, f"{beam}")


def models(client):
    listed = client.models.list()
    check(listed.object == "list" and sorted(model.id for model in listed) == sorted(["g2p-en", MODEL]), f"{listed}")
    for model in listed:
        one = client.models.retrieve(model.id)
        check((one.id, one.object, one.owned_by) == (model.id, "model", "beamwright"), f"{one}, {model}")
        check(one.summary["name"] == model.id, f"{one}")
    try:
        client.models.retrieve("gpt-2")
    except openai.NotFoundError as error:
        check("gpt-2" in str(error), f"{error}")
    else:
        check(False, "a model that is not there")


def samples(client):
    ask = lambda seed: complete(client, "once", temperature=1, n=4, seed=seed, max_tokens=20)  # noqa: E731
    texts = [[choice.text for choice in ask(seed).choices] for seed in (1, 1, 2)]
    check(texts[0] == texts[1] != texts[2], f"{texts}")
    mean = lambda choice: np.mean(choice.logprobs.token_logprobs)  # noqa: E731
    all_eight = complete(client, "once", temperature=1, n=8, seed=3, max_tokens=9, logprobs=0).choices
    best_two = complete(client, "once", temperature=1, n=2, best_of=8, seed=3, max_tokens=9, logprobs=0).choices
    expected = [choice.text for choice in sorted(all_eight, key=mean, reverse=True)[:2]]
    check([choice.text for choice in best_two] == expected, f"{best_two} and not {expected}")


def streams(client):
    count = 0
    for options in ({}, {"stop": ["bird", "was"]}, {"echo": True}, {"temperature": 1, "n": 3, "seed": 5}):
        whole = complete(client, "once", max_tokens=24, **options)
        parts = {}
        ends = {}
        for event in complete(client, "once", max_tokens=24, stream=True, **options):
            count += 1
            for choice in event.choices:
                check(choice.index not in ends, f"{options}: more of {choice.index} behind its end")
                parts[choice.index] = parts.get(choice.index, "") + choice.text
                if choice.finish_reason:
                    ends[choice.index] = choice.finish_reason
        check(event.choices, "an event without choices")
        *_, last = complete(client, "once", max_tokens=24, stream=True, stream_options={"include_usage": True}, **options)
        check(not last.choices and last.usage == whole.usage, f"{options}: {last} and not {whole.usage}")
        for choice in whole.choices:
            check(parts[choice.index] == choice.text, f"{options}: {parts[choice.index]!r} and not {choice.text!r}")
            check(ends[choice.index] == choice.finish_reason, f"{options}: {ends}")
    return count


def infers(grpc):
    """The same by the Open Inference Protocol."""
    client = tritonclient.grpc.InferenceServerClient(grpc)
    listed = client.get_model_metadata(MODEL).inputs
    check([(one.name, one.datatype) for one in listed] == [("prompt", "BYTES")], f"{listed}")

    def ask(prompt, datatype="BYTES", **parameters):
        tensor = tritonclient.grpc.InferInput("prompt", list(prompt.shape), datatype)
        tensor.set_data_from_numpy(prompt)
        return client.infer(MODEL, [tensor], parameters={"beam_size": 1, "max_length": 8, **parameters})

    for prompt in ("once upon", "sang", ""):
        expected = prompt + greedy(grpc, prompt, 8)[0]
        ids = np.array([[TOKENS.index(word) for word in prompt.split()]], np.int32)
        found = [ask(np.array([prompt.encode()], np.object_)), *([ask(ids, "INT32")] if prompt else [])]
        check(all(one.as_numpy("text")[0, 0].decode() == expected for one in found), f"{prompt!r}: {found} and not {expected!r}")
    begun_anew = client.infer(MODEL, [], parameters={"beam_size": 1, "max_length": 8})
    check(begun_anew.as_numpy("text")[0, 0].decode() == greedy(grpc, "", 8)[0], f"{begun_anew}")
    for message, prompt, parameters in (("has one", [b"once", b"upon"], {}), ("nosuchword", [b"nosuchword"], {}),
                                        ("send one of them", [b"once"], {"target_prefix": '{"text": "upon"}'})):
        try:
            ask(np.array(prompt, np.object_), **parameters)
        except tritonclient.utils.InferenceServerException as error:
            check(message in str(error), f"{error} does not say {message}")
        else:
            check(False, f"{prompt} is not refused")


def refused(client):
    for kind, message, options in (
            (openai.NotFoundError, "gpt-2", {"model": "gpt-2"}),
            (openai.BadRequestError, "prompt", {"prompt": ["once", "upon"]}),
            (openai.BadRequestError, "prompt", {"prompt": [1.5]}),
            (openai.BadRequestError, "prompt: word 0, 'nosuchword'", {"prompt": "nosuchword"}),
            (openai.BadRequestError, "prompt: ", {"prompt": [99999]}),
            (openai.BadRequestError, "completions are for language models", {"model": "g2p-en", "prompt": "x"}),
            (openai.BadRequestError, "logprobs: above 0 needs temperature 0", {"temperature": 1, "logprobs": 2}),
            (openai.BadRequestError, "max_tokens", {"max_tokens": 0}),
            (openai.BadRequestError, "best_of", {"n": 3, "best_of": 2}),
            (openai.BadRequestError, "logit_bias", {"logit_bias": {"3": 500}}),
            (openai.BadRequestError, "stop", {"stop": [""]}),
            (openai.BadRequestError, "presence_penalty", {"presence_penalty": 1}),
            (openai.BadRequestError, "suffix", {"suffix": "end"}),
            (openai.BadRequestError, "is no field", {"extra_body": {"beam": 3}}),
            (openai.BadRequestError, "'beam_siz' is not a field", {"extra_body": {"options": {"beam_siz": 3}}})):
        for stream in (False, True):
            try:
                answer = complete(client, **{"prompt": "once", "stream": stream, **options})
            except kind as error:
                check(message in str(error), f"{error} does not say {message}")
            else:
                check(False, f"{options}: {answer} instead of {kind.__name__}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "models" / MODEL).mkdir(parents=True)
        make_model(pathlib.Path(sys.argv[1]), folder, folder / "models" / MODEL / "1")
        with server("--model-repository", folder / "models") as (grpc, http, _):
            client = openai.OpenAI(base_url=f"http://{http}/v1", api_key="none", max_retries=0, timeout=120)
            models(client)
            answers(client, grpc)
            samples(client)
            events = streams(client)
            refused(client)
            infers(grpc)
    print(f"answers, samples, {events} events of streams, refusals, inferences")


if __name__ == "__main__":
    main()
