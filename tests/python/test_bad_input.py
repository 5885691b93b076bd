"""Values that make no sense: each is refused with a message that names it and what is allowed."""

import numpy as np
import pytest

import beamwright
from beamwright import ArgumentTypeError, DecoderInputs, Features, InvalidArgumentError


@pytest.fixture(scope="module")
def offline():
    """A client whose calls never get as far as to the network."""
    with beamwright.Client("127.0.0.1:1") as client:
        yield client


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "source is None; text, token ids, a NumPy array"),
        (3, "source is int"),
        (2.5, "source is float"),
        (float("nan"), "source is float"),
        (b"cat", r"source is bytes; decode them to str first"),
        (["cat", "dog"], "decode_many takes them"),
        ([[1, 2], [3]], "decode_many takes them"),
        ([1, 2.5], "token ids"),
        ([True, False], "bools"),
        ({"text": "cat"}, "source is dict"),
        (np.array("cat"), "single number"),
        (np.array(["cat"]), "elements of type <U3"),
        (np.array([object()]), "elements of type object"),
        (np.zeros((2, 2), complex), "complex128"),
        (iter([1]), "source is list_iterator"),
        (object, "source is type"),
        (Features("cat"), "elements of type <U3"),
    ],
)
def test_sources_of_a_wrong_type(offline, source, message):
    with pytest.raises(ArgumentTypeError, match=message):
        offline.decode(source)
    with pytest.raises(TypeError):
        offline.stream(source)


@pytest.mark.parametrize(
    ("source", "message"), [("a\ud800", "lone surrogates"), ([2**31], "32 bits"), ([-(2**40)], "32 bits")]
)
def test_sources_of_a_wrong_value(offline, source, message):
    with pytest.raises(InvalidArgumentError, match=message):
        offline.decode(source)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": "5"}, "beam_size is str '5'; a whole number is expected"),
        ({"beam_size": 5.0}, "beam_size is float"),
        ({"beam_size": True}, "beam_size is bool"),
        ({"beam_size": [5]}, "beam_size is list"),
        ({"temperature": "hot"}, "temperature is str 'hot'; a number is expected"),
        ({"temperature": np.zeros(3)}, "temperature is ndarray"),
        ({"renormalize": 1}, "renormalize is int 1; True or False is expected"),
        ({"length_penalty": 2}, "length_penalty is int 2; one of none, pow, gnmt is expected"),
        ({"allowed_list": 3}, "allowed_list is int"),
        ({"regex": 3}, "regex is int"),
        ({"suppress_tokens": 3}, "suppress_tokens is int"),
        ({"suppress_tokens": b"A"}, "suppress_tokens is bytes"),
        ({"suppress_tokens": np.zeros((2, 2), int)}, r"shape \(2, 2\)"),
        ({"allowed_sequences": "A B"}, "allowed_sequences is str"),
        ({"allowed_sequences": ["A", 3]}, r"allowed_sequences\[1\] is int"),
        ({"hotwords": "A"}, "mapping of phrases to bonuses"),
        ({"logit_bias": [3]}, "mapping of tokens to biases"),
        ({"stop_strings": ["A", 3]}, r"stop_strings\[1\] is int"),
        ({"hotwords": {"A": "much"}}, r"hotwords\[0\].bonus is str"),
        ({"fusion": [("lm", 1)]}, "mapping of scorers to weights"),
        ({"beamsize": 5}, r"decode\(\) has no option 'beamsize'; did you mean beam_size\?"),
        ({"zzz": 5}, r"decode\(\) has no option 'zzz'$"),
        ({"model": 3}, "model is int"),
        ({"version": 1.5}, "version is float"),
    ],
)
def test_options_of_a_wrong_type(offline, options, message):
    with pytest.raises(ArgumentTypeError, match=message):
        offline.decode("cat", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 2**31}, r"options.beam_size: 2147483648 is outside \[1, 256\]"),
        ({"seed": 2**31}, r"options.seed: 2147483648 is outside \[-2147483648, 2147483647\]"),
        ({"temperature": float("nan")}, "options.temperature: nan is not a finite number"),
        ({"temperature": 1e39}, "32 bits"),
        ({"length_penalty": "power"}, "'power' is not known; known are none, pow, gnmt"),
    ],
)
def test_options_of_a_wrong_value(offline, options, message):
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        offline.decode("cat", **options)
    assert caught.value.fields == (f"options.{next(iter(options))}",)


def test_targets(offline):
    with pytest.raises(ArgumentTypeError, match="no target"):
        offline.score("read")
    with pytest.raises(ArgumentTypeError, match="target 1 is int"):
        offline.score("read", "R", 3)
    with pytest.raises(ArgumentTypeError, match="target is None"):
        offline.align("read", None)
    with pytest.raises(ArgumentTypeError, match=r"score\(\) has no option 'beam_size'"):
        offline.score("read", "R", beam_size=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"address": ""}, "empty"),
        ({"address": "local host"}, "white space"),
        ({"address": "localhost:http"}, "no port from 1 to 65535"),
        ({"address": "localhost:70000"}, "no port"),
        ({"address": "http://localhost:8000"}, "is a URL; write host:port"),
        ({"timeout": 0}, "above 0 seconds"),
        ({"connections": 0}, r"connections: 0 is outside \[1, 64\]"),
        ({"max_attempts": 6}, r"outside \[1, 5\]"),
        ({"keepalive": 1}, r"outside \[2, 86400\]"),
        ({"max_receive_bytes": 0}, "outside"),
        ({"tls_cert": b"x"}, "give both or neither"),
        ({"token": "two words"}, "one word"),
        ({"token": ""}, "one word"),
        ({"token": "a", "token_file": "b"}, "exclude each other"),
        ({"address": "example.com", "token": "secret"}, "clear text"),
        ({"metadata": {"Upper": "x"}}, "lower case"),
    ],
)
def test_settings_of_a_client(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        beamwright.Client(**arguments)
    assert "secret" not in str(caught.value)


def test_settings_of_a_wrong_type():
    for arguments in ({"address": 8001}, {"connections": 1.5}, {"timeout": "1"}, {"max_attempts": True}):
        with pytest.raises(ArgumentTypeError, match=next(iter(arguments))):
            beamwright.Client(**arguments)
    with pytest.raises(FileNotFoundError, match="tls_ca: No such file"):
        beamwright.Client(tls_ca="/nowhere/ca.crt")


def test_addresses():
    for given, dialled in {
        "here": "here:8001",
        "here:1": "here:1",
        "[::1]": "[::1]:8001",
        "[::1]:7": "[::1]:7",
        "unix:/a/b": "unix:/a/b",
        "dns:///here:9": "dns:///here:9",
    }.items():
        assert beamwright.Client(given).address == dialled


def test_the_environment_is_that_of_the_command_line(monkeypatch, tmp_path):
    monkeypatch.setenv("BEAMWRIGHT_SERVER", "there:77")
    assert beamwright.Client().address == "there:77"
    assert beamwright.Client("here").address == "here:8001"
    monkeypatch.setenv("BEAMWRIGHT_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="token_file"):
        beamwright.Client()
    monkeypatch.setenv("BEAMWRIGHT_TLS_CA", str(tmp_path / "ca"))
    with pytest.raises(FileNotFoundError, match="tls_ca"):
        beamwright.Client(token="x")
    # What is meant for that server is not sent to another.
    assert beamwright.Client("here").address == "here:8001"


def test_arrays_become_tensors():
    from beamwright import _requests, _wire

    values = np.arange(6, dtype=">f4").reshape(2, 3)[:, ::-1]
    source = _wire.Source()
    assert _requests.set_source(source, values) is None
    assert source.features.dtype == "f32"
    assert list(source.features.shape) == [2, 3]
    sent = np.frombuffer(source.features.data, "<f4").reshape(2, 3)
    np.testing.assert_array_equal(sent, values)
    whole = _wire.Source()
    _requests.set_source(whole, np.zeros((2, 2), np.int64))
    assert whole.features.dtype == "i64"
    flat = _wire.Source()
    _requests.set_source(flat, Features(np.arange(3)))
    assert flat.features.dtype == "i64"
    inputs = _wire.Source()
    _requests.set_source(inputs, DecoderInputs({"m": np.zeros((4, 2), np.float16)}, {"h": np.zeros(3)}, 4))
    assert inputs.decoder_inputs.memory["m"].dtype == "f16"
    assert inputs.decoder_inputs.states["h"].dtype == "f64"
    assert inputs.decoder_inputs.source_length == 4


def test_pictures_are_sent_as_their_files(tmp_path):
    from beamwright import _requests, _wire

    picture = _wire.Source()
    (tmp_path / "line.png").write_bytes(b"\x89PNG")
    for file in (tmp_path / "line.png", str(tmp_path / "line.png"), b"\x89PNG"):
        _requests.set_source(picture, beamwright.Picture(file))
        assert picture.picture == b"\x89PNG"


def test_features_for_a_model_of_text(client):
    with pytest.raises(InvalidArgumentError, match="features"):
        client.decode(np.zeros((4, 80), np.float32))
    with pytest.raises(InvalidArgumentError):
        client.decode(DecoderInputs({"memory": np.zeros((4, 8), np.float32)}))
