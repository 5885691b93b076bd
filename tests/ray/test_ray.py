"""beamwright.ray on this machine: a server of this build, Ray with two workers. Run by ./dev ray-test."""

import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import ray

import beamwright
import beamwright.ray

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "g2p-en"
WORDS = (MODEL / "words-test.txt").read_text(encoding="utf-8").split("\n")[:600]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, address="local")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def server():
    with beamwright.serve(MODEL, threads=1, forecast_deadlines=False) as running:
        yield running


@pytest.fixture(scope="module")
def model():
    with beamwright.Model(MODEL, threads=1) as loaded:
        yield loaded


def rows(dataset):
    return {row["text"]: row for row in dataset.take_all()}


@pytest.mark.parametrize("workers", [1, 2])
def test_answers_are_the_clients(server, workers):
    words = ray.data.from_items([{"text": word, "number": number} for number, word in enumerate(WORDS)])
    found = rows(beamwright.ray.decode(words.repartition(4), server.address, workers=workers, beam_size=3, batch_size=100))
    with server.client() as client:
        expected = list(client.decode_many(WORDS, beam_size=3))
    assert len(found) == len(WORDS)
    for number, answer in enumerate(expected):
        row = found[answer.source]
        assert (row["number"], row["decoded"], row["score"], row["error"]) == (number, answer.text, answer.best.score, "")
        assert "hypotheses" not in row


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_decode_by_themselves(model, workers):
    words = ray.data.from_items([{"text": word} for word in WORDS[:200]]).repartition(4)
    # Nothing is left for what makes the dataset where two workers have a processor each.
    found = rows(beamwright.ray.decode(words, path=MODEL, workers=workers, num_cpus=0.5, batch_size=100, beam_size=3))
    for answer in model.decode_many(WORDS[:200], beam_size=3):
        row = found.pop(answer.source)
        assert (row["decoded"], row["score"], row["error"]) == (answer.text, answer.best.score, "")
    assert not found


def test_what_ends_a_worker_that_decodes():
    sources = ray.data.from_items([{"text": "cat"}])
    for arguments, message in (({"path": "/no/such/model"}, "/no/such/model"), ({"path": MODEL, "engine": {"precision": "f3"}}, "f3")):
        with pytest.raises(Exception, match=message):
            beamwright.ray.decode(sources, workers=1, **arguments).take_all()


def test_ids_lists_and_sources_that_fail(server):
    sources = ray.data.from_items([{"text": word} for word in ("cat", "a" * 500, "read")])
    found = rows(beamwright.ray.decode(sources, server.address, workers=1, n_best=2))
    failed = found["a" * 500]
    assert failed["error"] == "INVALID_ARGUMENT: source has 500 tokens; at most 128 are allowed"
    assert failed["decoded"] == ""
    assert math.isnan(failed["score"])
    assert list(failed["hypotheses"]) == []
    assert found["cat"]["hypotheses"][0] == found["cat"]["decoded"] == "K AE1 T"
    assert len(found["read"]["hypotheses"]) == 2
    with server.client() as client:
        expected = client.decode([8, 5, 12]).text
    ids = ray.data.from_items([{"ids": np.array([8, 5, 12])}])
    [row] = beamwright.ray.decode(ids, server.address, workers=1, column="ids").take_all()
    assert row["decoded"] == expected


def test_what_ends_a_run(server):
    sources = ray.data.from_items([{"text": "a" * 500}])
    for arguments, message in (({"on_error": "raise"}, "at most 128 are allowed"), ({"model": "none"}, "none"),
                               ({"column": "line"}, "there is no column 'line'")):
        with pytest.raises(Exception, match=message):
            beamwright.ray.decode(sources, server.address, workers=1, **arguments).take_all()


def test_what_is_refused_before_anything_starts():
    sources = ray.data.from_items([{"text": "cat"}])
    for arguments, message in (({"workers": 0}, "workers"), ({"beam_size": "wide"}, "beam_size"), ({"beam_sizes": 3}, "no option"),
                               ({"on_error": "return"}, "column"), ({"client": {"keepalive": 1}}, "keepalive"),
                               ({"max_in_flight": 0}, "max_in_flight")):
        with pytest.raises(beamwright.BeamwrightError, match=message):
            beamwright.ray.decode(sources, "localhost", **{"workers": 1, **arguments})
    for arguments, message in (({"address": "localhost"}, "address"), ({"model": "g2p-en"}, "model"), ({"client": {}}, "client"),
                               ({"engine": {"treads": 2}}, "treads"), ({"path": 3}, "path")):
        with pytest.raises(beamwright.BeamwrightError, match=message):
            beamwright.ray.decode(sources, **{"workers": 1, "path": MODEL, **arguments})
    with pytest.raises(beamwright.InvalidArgumentError, match="engine"):
        beamwright.ray.decode(sources, "localhost", workers=1, engine={"threads": 2})
    with pytest.raises(beamwright.ArgumentTypeError, match="ray.data.Dataset is expected"):
        beamwright.ray.decode(["cat"], "localhost", workers=1)


def test_the_recipe_goes_on_where_it_stopped(server, tmp_path):
    parts, answers = tmp_path / "lines", tmp_path / "answers"
    parts.mkdir()
    for part in range(3):
        (parts / f"{part}.txt").write_text("\n".join(WORDS[part * 20 : part * 20 + 20]) + "\n", encoding="utf-8")
    command = [sys.executable, ROOT / "examples/decode_lines_with_ray.py", parts, answers, "--server", server.address,
               "--workers", "1"]

    def run():
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "RAY_ADDRESS": "local"})
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run().count(" lines, ") == 3
    whole = ray.data.read_parquet(str(answers / "1.txt")).take_all()
    assert {row["text"] for row in whole} == set(WORDS[20:40])
    (answers / "1.txt" / "_SUCCESS").unlink()
    again = run()
    assert again.count(" lines, ") == 1
    assert again.count("done before") == 2
    assert len(ray.data.read_parquet(str(answers / "1.txt")).take_all()) == 20
