"""Decoding in process: the same answers and errors as the server's, with other libraries, in threads and forks."""

import concurrent.futures
import dataclasses
import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import MODEL, ROOT, run_python, unpacked

import beamwright


@pytest.fixture(scope="module")
def model():
    with beamwright.Model(MODEL, threads=1, check=False) as model:
        yield model


def same(one, other):
    """Equal in every number; attention, which has no part in comparisons, as well."""
    pairs = [(a.attention, b.attention) for a, b in zip(getattr(one, "hypotheses", ()), getattr(other, "hypotheses", ()))]
    return one == other and all(a is b or np.array_equal(a, b) for a, b in pairs)


def test_the_bits_are_the_servers(model, client, words):
    options = {"beam_size": 5, "n_best": 3, "length_penalty": "pow", "attention": "soft", "top_tokens": 2}
    for word in words[:20]:
        assert same(model.decode(word, **options), client.decode(word, **options))
    for ours, theirs in zip(model.decode_many(words[:100]), client.decode_many(words[:100]), strict=True):
        assert same(ours, theirs)
    assert model.score("read", "R EH1 D", "R IY1 D") == client.score("read", "R EH1 D", "R IY1 D")
    assert model.align("cat", "K AE1 T") == client.align("cat", "K AE1 T")
    assert model.describe().config == client.describe("g2p-en").config


WRONG = [
    lambda one: one.decode("cat", beam_size=500, top_p=3),
    lambda one: one.decode(""),
    lambda one: one.decode([99999]),
    lambda one: one.decode(np.zeros((3, 4), np.float32)),
    lambda one: one.decode("cat", beam_sise=3),
    lambda one: one.decode(b"cat"),
    lambda one: one.score("cat", "no such tokens"),
    lambda one: one.score("cat"),
    lambda one: one.align("cat", "no such tokens"),
    lambda one: one.decode("cat", timeout=-1),
    lambda one: list(one.decode_many(["cat", ""])),
    lambda one: list(one.decode_many(["cat"], batch_size=0)),
]


@pytest.mark.parametrize("call", WRONG)
def test_errors_are_the_servers(model, client, call):
    errors = []
    for one in (model, client):
        with pytest.raises(beamwright.BeamwrightError) as caught:
            call(one)
        errors.append(caught.value)
    ours, theirs = errors
    assert type(ours) is type(theirs)
    assert str(ours) == str(theirs)
    for name in ("reason", "violations", "index", "metadata"):
        assert getattr(ours, name, None) == getattr(theirs, name, None)


def test_many_keep_their_order_and_their_errors(model, words):
    sources = [*words[:70], "", *words[70:100]]
    answers = list(model.decode_many(sources, on_error="return", batch_size=7, beam_size=1))
    assert [getattr(answer, "source", None) for answer in answers] == [*words[:70], None, *words[70:100]]
    assert answers[70].index == 70
    taken = iter(words)
    first = next(model.decode_many(taken, batch_size=1, max_in_flight=1))
    assert first.source == words[0]


def test_threads_share_a_model(model, words):
    alone = [model.decode(word) for word in words[:30]]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(model.decode, words[:30])) == alone


def test_python_runs_while_a_model_decodes(model, words):
    """The GIL is let go: this thread sees that another is within a long call, and makes a call meanwhile."""

    def is_within():
        return any(frame.f_code.co_name == "_run" for frame in sys._current_frames().values())

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: list(model.decode_many(words[:200], batch_size=200, beam_size=8)))
        while not running.done() and not is_within():
            pass
        assert model.decode("cat").text == "K AE1 T"
        assert not running.done()
        assert len(running.result()) == 200


def test_a_timeout_ends_a_call(model, words):
    with pytest.raises(beamwright.DeadlineExceededError):
        next(model.decode_many(words * 2, batch_size=4000, beam_size=20, timeout=0.001))


def test_closing_waits_for_who_decodes(words):
    model = beamwright.Model(MODEL, threads=1, check=False)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(model.decode, word, beam_size=10) for word in words[:40]]
        futures[0].result()
        model.close()
        for future in futures:
            error = future.exception()
            assert error is None or isinstance(error, beamwright.ClientClosedError)
    with pytest.raises(beamwright.ClientClosedError, match="closed"):
        model.decode("cat")
    model.close()
    assert "closed" in repr(model)


def test_what_is_loaded_is_checked(tmp_path):
    with pytest.raises(beamwright.NotFoundError, match="no-such"):
        beamwright.Model("models/no-such")
    with pytest.raises(beamwright.InvalidArgumentError, match="precision"):
        beamwright.Model(MODEL, precision="f64")
    with pytest.raises(beamwright.InvalidArgumentError, match="num_threads"):
        beamwright.Model(MODEL, threads=-1)
    for wrong in ({"threads": "two"}, {"max_rows": 1.5}, {"precision": 8}):
        with pytest.raises(beamwright.ArgumentTypeError):
            beamwright.Model(MODEL, **wrong)
    with pytest.raises(beamwright.ArgumentTypeError):
        beamwright.Model(None)
    bundle = tmp_path / "broken"
    bundle.mkdir()
    (bundle / "model.textproto").write_text("nonsense: 1\n")
    with pytest.raises(beamwright.InvalidArgumentError, match=r"model\.textproto") as caught:
        beamwright.Model(bundle)
    assert str(caught.value).count("bundle '") == 1


def test_precision_is_the_callers():
    with beamwright.Model(MODEL, threads=1, precision="int8", check=False) as model:
        assert "int8" in model.numerics
        assert model.decode("cat").text == "K AE1 T"


def test_it_tells_what_it_is(model):
    assert (model.name, model.version) == ("g2p-en", "1")
    assert repr(model).startswith("Model('g2p-en', version 1, ")
    with pytest.raises(beamwright.ArgumentTypeError, match="load it there"):
        pickle.dumps(model)
    assert dataclasses.is_dataclass(model.decode("cat"))


def test_a_fork_is_refused_and_never_hangs():
    code = """
import os, signal, sys
import beamwright

model = beamwright.Model(sys.argv[1], threads=2, check=False)
many = model.decode_many(["cat"] * 100, batch_size=10)
next(many)
if (child := os.fork()) == 0:
    signal.alarm(30)
    refused = 0
    for call in (lambda: model.decode("cat"), lambda: next(many), lambda: beamwright.Model(sys.argv[1])):
        try:
            call()
        except beamwright.ForkError as error:
            assert "fork" in str(error)
            refused += 1
    model.close()
    del many
    os._exit(refused)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
assert len(list(many)) == 99
print(model.decode("cat").text)
"""
    assert run_python(code, MODEL) == "K AE1 T\n"


def decoded_in_child(word):
    with beamwright.Model(MODEL, threads=1, check=False) as model:
        return model.decode(word).text, os.getpid()


def test_processes_that_are_spawned_load_their_own(model):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        text, process = pool.apply_async(decoded_in_child, ("cat",)).get(60)
    assert (text, process != os.getpid()) == ("K AE1 T", True)


# Libraries that contain OpenMP, protobuf or Abseil. Those that are not installed are left out here; `./dev frameworks`
# has them all.
IMPORTS = ["numpy", "grpc", "google.protobuf.message", "onnxruntime", "torch", "tensorflow"]


@pytest.mark.parametrize("order", ["before", "after"])
def test_it_lives_beside_other_libraries(order):
    code = """
import importlib, importlib.util, sys

def others():
    for name in sys.argv[3:]:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    import numpy
    return numpy.ones((300, 300)) @ numpy.ones((300, 300))

if sys.argv[2] == "before":
    others()
import beamwright
model = beamwright.Model(sys.argv[1], check=False)
answer = model.decode("recurrent", beam_size=5)
if sys.argv[2] == "after":
    others()
assert model.decode("recurrent", beam_size=5) == answer
assert others()[0, 0] == 300
print(answer.text)
"""
    assert run_python(code, MODEL, order, *IMPORTS) == "R IY0 K ER1 AH0 N T\n"


def test_it_decodes_while_other_libraries_compute_and_is_idle_afterwards():
    pytest.importorskip("onnxruntime")
    code = """
import importlib.util, sys, threading, time
import numpy, onnxruntime
import beamwright

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[2], options)
source = {session.get_inputs()[0].name: numpy.ones((1, 50), numpy.int64)}
square = numpy.ones((200, 200))
products = [lambda: square @ square, lambda: session.run(None, source)]
if importlib.util.find_spec("torch") is not None:
    import torch
    tensor = torch.ones(200, 200)
    products.append(lambda: tensor @ tensor)

model = beamwright.Model(sys.argv[1], threads=2, check=False)
words = ["recurrent", "cat", "beam"] * 20
answers = [answer.text for answer in model.decode_many(words, beam_size=5)]
left = threading.Event()
rounds = []
def compute(product):
    while not left.is_set():
        product()
        rounds.append(product)
threads = [threading.Thread(target=compute, args=(product,)) for product in products]
for thread in threads:
    thread.start()
while set(rounds) != set(products):
    assert [answer.text for answer in model.decode_many(words, beam_size=5)] == answers
left.set()
for thread in threads:
    thread.join()
time.sleep(0.5)  # runtimes of the others look out for work
before = time.process_time()
time.sleep(0.5)
spent = time.process_time() - before
assert spent < 0.1, spent
print(answers[0])
"""
    encoder = unpacked("tools/graph/testdata/step-lstm") / "encoder.onnx"
    assert run_python(code, MODEL, encoder) == "R IY0 K ER1 AH0 N T\n"


@pytest.mark.of_the_build
def test_protobuf_of_others_is_not_met(tmp_path):
    """TensorFlow shows its protobuf to the whole process; this one would end it."""
    source, library = tmp_path / "others.c", tmp_path / "others.so"
    source.write_text(
        "#include <stdlib.h>\n"
        "void _ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi(void) { abort(); }\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    code = """
import ctypes, sys
ctypes.CDLL(sys.argv[2], ctypes.RTLD_GLOBAL)
import beamwright
print(beamwright.Model(sys.argv[1], check=False).decode("cat").text)
"""
    assert run_python(code, MODEL, library) == "K AE1 T\n"


def test_a_library_that_is_not_there_is_named(tmp_path):
    code = """
import beamwright
try:
    beamwright.Model("models/g2p-en")
except beamwright.EngineError as error:
    print(error)
"""
    assert "there is no file /no/such.so" in run_python(code, BEAMWRIGHT_LIBRARY="/no/such.so")
    fake = tmp_path / "libbeamwright.so.1"
    fake.write_text("not a library")
    assert "Install the release's file beamwright_engine-" in run_python(code, BEAMWRIGHT_LIBRARY=str(fake))


@pytest.mark.of_the_build
def test_the_example_by_ctypes():
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    example = ROOT / "examples" / "decode_by_ctypes.py"
    out = run_python(code, example, os.environ["BEAMWRIGHT_LIBRARY"], MODEL, "cat", "dog")
    assert out == "cat\tK AE1 T\ndog\tD AO1 G\n"
