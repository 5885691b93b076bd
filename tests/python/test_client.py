"""Calls of Client against the real server."""

import inspect
import math
import os
import pathlib
import re
import subprocess
import threading

import numpy as np
import pytest
from conftest import MODEL, FakeServer, unpacked

import beamwright
from beamwright import FinishReason, Health, _html, _wire


def test_decode_has_what_the_server_says(client):
    answer = client.decode("recurrent", beam_size=5, n_best=3, length_penalty="pow")
    assert answer.text == "R IY0 K ER1 AH0 N T"
    assert [str(one) for one in answer] == [
        "R IY0 K ER1 AH0 N T",
        "R IH0 K ER1 AH0 N T",
        "R AH0 K ER1 AH0 N T",
    ]
    assert answer.source == "recurrent"
    assert answer.source_length == 9
    assert (answer.model, answer.version) == ("g2p-en", "1")
    assert answer.numerics
    best = answer.best
    assert best.finish_reason is FinishReason.EOS
    assert len(best.tokens) == len(best.token_log_probs) == 8
    assert math.isclose(sum(best.token_log_probs), best.log_prob, rel_tol=1e-6)
    assert math.isclose(best.log_prob / 8, best.score, rel_tol=1e-6)
    assert best.words == ()


def test_words(client):
    answer = client.decode("recurrent", beam_size=5, n_best=3, words=True)
    words = answer.best.words
    assert [word.text for word in words] == answer.text.split()
    assert [word.first_token for word in words] == list(range(7))
    assert words[0].begin_ms is None
    shares = np.exp([one.score for one in answer])
    heard = [one.text.split()[1] == words[1].text for one in answer]  # the second word differs
    assert math.isclose(words[1].posterior, shares[heard].sum() / shares.sum(), rel_tol=1e-6)


def test_equal_requests_have_equal_answers_whatever_the_time(client):
    assert client.decode("hello") == client.decode("hello")
    assert hash(client.decode("hello")) == hash(client.decode("hello"))
    assert client.decode("hello") != client.decode("hallo")


@pytest.mark.parametrize(
    "ids", [[8, 5, 12], (8, 5, 12), range(8, 11), np.array([8, 5, 12]), np.array([8, 5], np.uint8)]
)
def test_ids_in_every_form(client, ids):
    expected = client.decode([int(i) for i in ids])
    assert client.decode(ids) == expected
    assert expected.source is None
    assert expected.source_length == len(ids)


def test_options_of_every_kind(client):
    assert client.decode("read", target_prefix="R EH1").text.startswith("R EH1")
    assert client.decode("read", target_prefix=[55, 25]).tokens[:2] == (55, 25)
    assert "EH1" not in client.decode("read", suppress_tokens="EH1").text
    pair = client.decode("read", allowed_sequences=["R EH1 D", "R IY1 D"], n_best=2)
    assert sorted(one.text for one in pair) == ["R EH1 D", "R IY1 D"]
    loud = client.decode("read", hotwords={"EH1": 5.0})
    assert loud.text == "R EH1 D"
    assert loud.best.reward == 5.0
    assert loud == client.decode("read", hotwords=[beamwright.Hotword("EH1", 5)])
    assert client.decode("read", hotwords=["EH1"]).best.reward in {0.0, 1.0}
    assert client.decode("read", renormalize=np.bool_(True), beam_size=np.int64(3), temperature=1)
    cut = client.decode("read", target_prefix="R EH1", stop_strings=["zz", " D"])
    assert (cut.text, cut.best.finish_reason) == ("R EH1", beamwright.FinishReason.STOP)
    assert cut == client.decode("read", target_prefix="R EH1", stop_strings=" D")
    assert client.decode("read", logit_bias={"EH1": 20, 25: 30, "IY1": -40}).tokens[0] == 25
    for pattern in ("R (EH1|IY1) [DT]", "[A-Z]+( [A-Z]+[0-9]?){2,4}", "(\\w+ ){2,3}[DSZ]"):
        held = [one for word in ("read", "house") for one in client.decode(word, regex=pattern, n_best=4)]
        assert held
        assert all(re.fullmatch(pattern, one.text) for one in held)
    behind = client.decode("read", regex=" D( Z)?", target_prefix="R EH1").text
    assert behind in {"R EH1 D", "R EH1 D Z"}
    with pytest.raises(beamwright.BeamwrightError, match="json_schema: the model's tokens spell no text"):
        client.decode("read", json_schema="{}")
    top = client.decode("read", top_tokens=3).best.top_tokens
    assert [len(one.tokens) for one in top] == [3] * len(top)
    steps = client.decode("read", lattice=True).lattice
    assert steps
    assert steps[0].parents == (0,) * len(steps[0].tokens)
    samples = client.decode("read", sampling="random", seed=7, n_best=3, beam_size=3)
    assert samples == client.decode("read", sampling="random", seed=7, n_best=3, beam_size=3)
    assert client.decode("read", beam_size=None, n_best=None) == client.decode("read")


def test_attention_is_an_array(client):
    best = client.decode("read", attention="soft").best
    assert best.attention.shape == (len(best.tokens), 4)
    assert best.attention.dtype == np.float32
    np.testing.assert_allclose(best.attention.sum(axis=1), 1, rtol=1e-5)
    assert best.alignment == tuple(best.attention.argmax(axis=1))
    assert not best.attention.flags.writeable
    hard = client.decode("read", attention="hard").best
    assert hard.alignment == best.alignment
    assert hard.attention is None


def test_a_stream_ends_with_what_decode_answers(client):
    updates = list(client.stream("recurrent", provisional=True))
    assert updates[-1].result.hypotheses == client.decode("recurrent").hypotheses
    assert all(update.result is None for update in updates[:-1])
    stable = [token for update in updates for one in update.stable for token in one.tokens]
    assert tuple(stable) == updates[-1].result.tokens
    assert client.stream("cat").result().text == "K AE1 T"


def test_messages_of_a_stream():
    """Of a server of our own: the real one joins messages for who reads slowly."""
    left = threading.Event()

    def stream(request, context):
        if request.source.text == "wait":
            context.add_callback(left.set)
        assert request.options.beam_size == 3
        message = _wire.StreamDecodeResponse()
        message.stable.add(tokens=[5, 6], position=0, text="A B", sample=1)
        if request.provisional:
            message.provisional.text = "A B C"
        yield message
        if request.source.text == "end":
            yield _wire.StreamDecodeResponse(decoded={"steps": 3}, model="m")
        elif request.source.text == "wait":
            left.wait(20)

    with FakeServer(None, stream) as fake, beamwright.Client(fake.address) as client:
        first, last = client.stream("end", provisional=True, beam_size=3)
        assert first.stable == (beamwright.StableTokens((5, 6), 0, "A B", 1),)
        assert first.provisional.text == "A B C"
        assert (first.result, last.result.steps, last.result.model, last.result.source) == (None, 3, "m", "end")
        assert next(client.stream("end", beam_size=3)).provisional is None
        with pytest.raises(beamwright.InternalError, match="without an answer"):
            client.stream("", beam_size=3).result()
        with client.stream("wait", beam_size=3) as waiting:
            next(waiting)
        assert left.wait(20)
        with pytest.raises(beamwright.CallCancelledError):
            next(waiting)


def test_score_and_align(client):
    answer = client.decode("read", n_best=2)
    scored = client.score("read", *[one.text for one in answer], answer[0].tokens)
    assert [one.log_prob for one in scored][:2] == [one.log_prob for one in answer]
    assert scored[2].hypothesis.log_prob == answer[0].log_prob
    assert scored.source == "read"
    assert scored[0].perplexity == pytest.approx(math.exp(-answer[0].log_prob / len(answer[0].tokens)))
    aligned = client.align("read", "R EH1 D", soft=True)
    assert len(aligned.positions) == 3
    assert aligned.positions == tuple(aligned.attention.argmax(axis=1))
    assert client.align("read", "R EH1 D").attention is None
    with pytest.raises(beamwright.InvalidArgumentError):
        client.score("read", "NO SUCH TOKENS")


def test_models_and_health(client):
    (model,) = client.models()
    assert (model.name, model.ready) == ("g2p-en", True)
    described = client.describe("g2p-en")
    assert described.summary == model
    assert described.config["decoder"]["attention_output"] == "attention"
    assert described.encoder_input.shape == (-1,)
    assert client.health() is Health.SERVING
    assert client.health("beamwright.v1.DecodeService") is Health.SERVING
    with pytest.raises(beamwright.NotFoundError):
        client.health("nowhere")


def test_model_and_version_of_client_and_call(server):
    with server.client(model="g2p-en", version=1) as client:
        assert client.decode("a").version == "1"
        with pytest.raises(beamwright.NotFoundError, match="nowhere"):
            client.decode("a", model="nowhere")
        with pytest.raises(beamwright.NotFoundError):
            client.decode("a", version="77")


def test_repr_and_html(client):
    answer = client.decode("cat", n_best=2, attention="soft")
    assert repr(answer).startswith("Decoded('cat': 2 of g2p-en,\n  Hypothesis('K AE1 T', score=-0.3415")
    html = answer._repr_html_()
    assert html.count("<table>") == 2
    assert html.count("rgba(") == len(answer.tokens) * 3
    assert "<th" in html.split("</table>")[1]
    assert "(end)" in html
    assert "<script" not in client.decode("<script>")._repr_html_()
    assert "AE1" in client.align("cat", "K AE1 T")._repr_html_()
    assert "rgba(" in client.align("cat", "K AE1 T", soft=True)._repr_html_()
    assert "K AE1 T" in answer.best._repr_html_()
    assert _html._token_names("c at", (5, 3, 6, 7, 1)) == ["c", " ", "a", "t", "(end)"]


def test_an_empty_list_is_an_answer(client):
    answer = client.decode("cat", score_threshold=0.0)
    assert len(answer) == 0
    assert answer
    with pytest.raises(IndexError, match="score_threshold"):
        _ = answer.text


def test_help_and_notebooks_see_the_options():
    for method in (beamwright.Client.decode, beamwright.AsyncClient.stream):
        parameters = inspect.signature(method).parameters
        assert parameters["beam_size"].annotation == "int | None"
        assert "options" not in parameters
        assert "beam_size: Hypotheses kept at each step" in inspect.getdoc(method)
    assert "end_token" in inspect.signature(beamwright.Client.score).parameters
    assert set(beamwright.DecodeOptions.__annotations__) <= set(
        inspect.signature(beamwright.Client.decode_many).parameters
    )


def test_threads_share_a_client(client, words):
    expected = {word: client.decode(word) for word in words[:24]}
    faults = []

    def work(mine):
        for word in mine:
            if client.decode(word) != expected[word]:
                faults.append(word)

    threads = [threading.Thread(target=work, args=(words[i:24:6],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_several_connections(server, words):
    with server.client(connections=3) as client:
        answers = list(client.decode_many(words[:40], batch_size=2))
    assert [answer.source for answer in answers] == words[:40]


def test_unix_socket(tmp_path):
    with beamwright.serve(MODEL, address=f"unix:{tmp_path}/socket", warm_up=False) as server:
        assert server.address == f"unix:{tmp_path}/socket"
        with server.client(token="over-a-socket") as client:
            assert client.decode("cat").text == "K AE1 T"


def test_decoder_inputs_against_pytorch(tmp_path):
    """A decoder whose encoder runs elsewhere; first steps that PyTorch computed."""
    exported = unpacked("tools/graph/testdata/step-lstm")
    given = np.load(exported / "inputs.npz")
    expected = np.load(exported / "outputs.npz")
    graph_tool = pathlib.Path(os.environ["BEAMWRIGHT_SERVER_PROGRAM"]).with_name("beamwright-graph")
    for row in range(2):
        begin = int(given["token"][row])
        bundle = tmp_path / f"row{row}"
        command = [graph_tool, "init", exported / "decoder.onnx", "--out", bundle, "--begin", str(begin)]
        subprocess.run([*command, "--end", "2"], check=True, capture_output=True)
        source = beamwright.DecoderInputs(
            memory={"memory": given["memory"][row]}, states={name: given[name][row] for name in "hc"}
        )
        logits = expected["logits"][row].astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum())
        with beamwright.serve(bundle, warm_up=False) as server, server.client() as client:
            described = client.describe()
            assert described.encoder_input is None
            assert [(one.name, one.dtype, one.shape) for one in described.memory] == [("memory", "f32", (-1, 16))]
            targets = [[token] for token in range(28)]
            scored = client.score(source, *targets, end_token=False, attention="soft")
            found = [target.log_prob for target in scored]
            np.testing.assert_allclose(found, log_probs, atol=1e-5)
            weights = scored[3].hypothesis.attention
            np.testing.assert_allclose(weights, expected["attention"][row : row + 1], atol=1e-6)
            answer = client.decode(source, beam_size=28, n_best=28, max_length=1)
            assert {one.tokens[0] for one in answer} == set(range(28))
            assert answer.tokens[0] == log_probs.argmax()
            assert list(client.decode_many([source] * 3, max_length=4)) == [client.decode(source, max_length=4)] * 3
            with pytest.raises(beamwright.InvalidArgumentError, match="memory"):
                client.decode(beamwright.DecoderInputs({"memory": given["memory"][row].astype(np.int64)}))


def layer(number, name, kind, attributes, inputs, shape, precision):
    """A layer of an IR with one output, or none; `inputs`: their shapes."""

    def port(at, dims):
        return f'<port id="{at}">' + "".join(f"<dim>{dim}</dim>" for dim in dims) + "</port>"

    ports = "".join(port(at, dims) for at, dims in enumerate(inputs))
    out = port(len(inputs), shape).replace("<port ", f'<port precision="{precision}" names="{name}" ', 1)
    return (
        f'<layer id="{number}" name="{name}" type="{kind}" version="opset8"><data {attributes}/>'
        + (f"<input>{ports}</input>" if inputs else "")
        + (f"<output>{out}</output>" if precision else "")
        + "</layer>"
    )


def test_a_prompt_without_an_encoder(tmp_path):
    """A language model of one step: h + table[token], and its tanh as scores."""
    rows, width = (-1,), (-1, 5)
    layers = [
        layer(0, "token", "Parameter", 'shape="?" element_type="i64"', [], rows, "I64"),
        layer(1, "h", "Parameter", 'shape="?,5" element_type="f32"', [], width, "FP32"),
        layer(2, "table", "Const", 'element_type="f32" shape="5,5" offset="0" size="100"', [], (5, 5), "FP32"),
        layer(3, "axis", "Const", 'element_type="i64" shape="" offset="100" size="8"', [], (), "I64"),
        layer(4, "x", "Gather", 'batch_dims="0"', [(5, 5), rows, ()], width, "FP32"),
        layer(5, "h_next", "Add", 'auto_broadcast="numpy"', [width, width], width, "FP32"),
        layer(6, "logits", "Tanh", "", [width], width, "FP32"),
        layer(7, "h_next", "Result", "", [width], (), ""),
        layer(8, "logits", "Result", "", [width], (), ""),
    ]
    edges = [(2, 0, 4, 0), (0, 0, 4, 1), (3, 0, 4, 2), (4, 3, 5, 0), (1, 0, 5, 1), (5, 2, 6, 0), (5, 2, 7, 0), (6, 1, 8, 0)]
    lines = [
        f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>' for a, b, c, d in edges
    ]
    table = np.random.default_rng(3).standard_normal((5, 5)).astype(np.float32)
    (tmp_path / "step.bin").write_bytes(table.tobytes() + np.int64(0).tobytes())
    (tmp_path / "step.xml").write_text(
        f'<net name="step" version="11"><layers>{"".join(layers)}</layers><edges>{"".join(lines)}</edges></net>'
    )
    graph_tool = pathlib.Path(os.environ["BEAMWRIGHT_SERVER_PROGRAM"]).with_name("beamwright-graph")
    bundle = tmp_path / "bundle"
    command = [graph_tool, "init", tmp_path / "step.xml", "--begin", "0", "--end", "1", "--out", bundle]
    subprocess.run(command, check=True, capture_output=True)

    def best(tokens):
        return int(np.tanh(table[[0, *tokens]].sum(axis=0)).argmax())

    options = {"beam_size": 1, "max_length": 1}
    with beamwright.serve(bundle, warm_up=False) as server, server.client() as client, beamwright.Model(bundle) as model:
        for one in (client, model):
            assert one.decode(prompt=[2, 3], **options).tokens == (2, 3, best([2, 3]))
            assert one.decode(prompt=[], **options).tokens == one.decode(prompt="", **options).tokens == (best([]),)
            with pytest.raises(beamwright.ArgumentTypeError, match="a source as well"):
                one.decode([4], prompt=[2])
            with pytest.raises(beamwright.ArgumentTypeError, match="a target_prefix as well"):
                one.decode(prompt=[2], target_prefix=[3])
            with pytest.raises(beamwright.ArgumentTypeError, match="source is None"):
                one.decode()
        assert client.stream(prompt=[2, 3], **options).result().tokens == (2, 3, best([2, 3]))

    # A state moves between servers with one key.
    (tmp_path / "key").write_bytes(b"what signs the states of both servers")
    keyed = {"warm_up": False, "state_key_file": tmp_path / "key", "prefix_cache_bytes": 1 << 20}
    with beamwright.serve(bundle, **keyed) as one, beamwright.serve(bundle, **keyed) as other:
        with one.client() as client:
            state = client.decode(prompt=[2], return_state=True, **options).state
            assert client.decode(prompt=[2, 3] * 8, **options).cached_prefix_length == 0
            assert client.decode(prompt=[2, 3] * 8, **options).cached_prefix_length == 16
        with other.client() as client:
            assert client.decode(prompt=[3], state=state, **options).tokens == (3, best([2, 3]))
            assert client.decode(state=state, **options).tokens == (best([2]),)
            assert client.stream(prompt=[3], state=state, **options).result().tokens == (3, best([2, 3]))
            with pytest.raises(beamwright.InvalidArgumentError, match="state: its signature is wrong"):
                client.decode(prompt=[3], state=state[:-1] + bytes([state[-1] ^ 1]), **options)
            with pytest.raises(beamwright.ArgumentTypeError, match="state is str"):
                client.decode(prompt=[3], state="x", **options)
            with pytest.raises(beamwright.ArgumentTypeError, match="a source as well"):
                client.decode([4], state=state, **options)


ENCODER = """<?xml version="1.0"?>
<net name="encoder" version="11">
  <layers>
    <layer id="0" name="frames" type="Parameter" version="opset1">
      <data shape="?,?,16" element_type="f32"/>
      <output><port id="0" precision="FP32" names="frames"><dim>-1</dim><dim>-1</dim><dim>16</dim></port></output>
    </layer>
    <layer id="1" name="relu" type="ReLU" version="opset1">
      <input><port id="0"><dim>-1</dim><dim>-1</dim><dim>16</dim></port></input>
      <output><port id="1" precision="FP32" names="memory"><dim>-1</dim><dim>-1</dim><dim>16</dim></port></output>
    </layer>
    <layer id="2" name="memory" type="Result" version="opset1">
      <input><port id="0"><dim>-1</dim><dim>-1</dim><dim>16</dim></port></input>
    </layer>
  </layers>
  <edges>
    <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
    <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
  </edges>
</net>
"""


# Adds a further input, a vector, to each frame.
SHIFTING_ENCODER = ENCODER.replace(
    '<layer id="1" name="relu" type="ReLU"',
    """<layer id="3" name="shift" type="Parameter" version="opset1">
      <data shape="?,1,16" element_type="f32"/>
      <output><port id="0" precision="FP32" names="shift"><dim>-1</dim><dim>1</dim><dim>16</dim></port></output>
    </layer>
    <layer id="1" name="add" type="Add\"""",
).replace(
    """<input><port id="0"><dim>-1</dim><dim>-1</dim><dim>16</dim></port></input>
      <output><port id="1" """,
    """<input>
        <port id="0"><dim>-1</dim><dim>-1</dim><dim>16</dim></port>
        <port id="2"><dim>-1</dim><dim>1</dim><dim>16</dim></port>
      </input>
      <output><port id="1" """,
).replace("<edges>", """<edges>
    <edge from-layer="3" from-port="0" to-layer="1" to-port="2"/>""")


def test_features(tmp_path):
    """An encoder that only takes what is below 0 away: features above it are what the decoder reads."""
    decoder = unpacked("tools/graph/testdata/step-lstm") / "decoder.onnx"
    graph_tool = pathlib.Path(os.environ["BEAMWRIGHT_SERVER_PROGRAM"]).with_name("beamwright-graph")
    plain, encoded = tmp_path / "plain", tmp_path / "encoded"
    command = [graph_tool, "init", decoder, "--begin", "1", "--end", "2", "--out", plain]
    subprocess.run(command, check=True, capture_output=True)
    config = (plain / "model.textproto").read_text()
    further = 'input: "frames" further_inputs { input: "shift" }'
    shifted = tmp_path / "shifted"
    for bundle, graph, inputs in ((encoded, ENCODER, ""), (shifted, SHIFTING_ENCODER, further)):
        bundle.mkdir()
        (bundle / "decoder.onnx").write_bytes((plain / "decoder.onnx").read_bytes())
        (bundle / "encoder.xml").write_text(graph)
        (bundle / "encoder.bin").touch()
        (bundle / "model.textproto").write_text(f'{config}encoder {{ graph: "encoder.xml" {inputs} }}\n')
    frames = np.random.default_rng(1).normal(size=(6, 16)).astype(np.float32)
    options = {"beam_size": 4, "n_best": 4, "max_length": 5, "attention": "soft"}
    with beamwright.serve(plain, encoded, shifted, warm_up=False) as server, server.client() as client:
        shift = np.random.default_rng(2).normal(size=16).astype(np.float32)
        source = beamwright.WithInputs(frames, {"shift": shift[None]})
        inputs = beamwright.DecoderInputs({"memory": frames + shift})
        answer = client.decode(source, model="shifted", **options)
        assert answer.hypotheses == client.decode(inputs, model="plain", **options).hypotheses
        assert [one.shape for one in client.describe("shifted").further_inputs] == [(1, 16)]
        with pytest.raises(beamwright.InvalidArgumentError, match="shift.*is missing"):
            client.decode(frames, model="shifted")
        assert client.describe("encoded").further_inputs == ()
        assert client.describe("encoded").encoder_input.shape == (-1, 16)
        answer = client.decode(frames, model="encoded", **options)
        inputs = beamwright.DecoderInputs({"memory": np.maximum(frames, 0)})
        assert answer.hypotheses == client.decode(inputs, model="plain", **options).hypotheses
        assert answer.source_length == 6
        assert answer.best.attention.shape[1] == 6
        assert client.decode(beamwright.Features(frames), model="encoded", **options) == answer
        same = (frames[:, ::-1][:, ::-1], frames.astype(">f4"), np.asfortranarray(frames), frames.astype(np.float64))
        for other in same:
            assert client.decode(other, model="encoded", **options) == answer
        with pytest.raises(beamwright.InvalidArgumentError, match="f32"):
            client.decode(frames.astype(np.int32), model="encoded")
        with pytest.raises(beamwright.InvalidArgumentError, match="finite"):
            client.decode(np.full((3, 16), 1e300), model="encoded")
        with pytest.raises(beamwright.InvalidArgumentError, match="16"):
            client.decode(frames[:, :8], model="encoded")
