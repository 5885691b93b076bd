"""The attacks of attacks.py, with the calls of the table of roles that each covers."""

import json
import os
import random
import struct

from attack_calls import (
    Attack, DECODE, FORM, MIB, OIP, OPTION_REGEX, OPTION_STATE, PATTERN, RULE_DECODE,
    RULE_INFER, RULE_MODELS, RULE_SPEECH, SLOW, URL, WIDE, call, connections, decode_request, deep,
    document_form, document_message, field, fine_picture, form, fresh_pattern, get, http_head,
    idle, infer_request, option, part, picture, picture_json, post, recognize, source,
    transcription, unread, wav, websocket,
)  # fmt: skip
from attack_kept import KEPT

ATTACKS = [
    # Size and depth before a request is a request.
    Attack(
        "JSON nested 200,000 deep, /v2",
        (RULE_INFER, "POST /v2/models/*/versions/*/infer"),
        post("/v2/models/g2p-en/infer", deep()),
    ),
    Attack(
        "JSON nested 200,000 deep, /v1",
        (RULE_MODELS, "POST /v1/models/*/versions/*"),
        post("/v1/models/g2p-en:decode", deep()),
    ),
    Attack(
        "4 MiB of {}",
        (RULE_MODELS,),
        post("/v1/models/g2p-en:decode", b'{"sources":[' + b",".join([b"{}"] * 1_350_000) + b"]}"),
        40,
    ),
    Attack("15 MiB of anything, 40 at once", (RULE_DECODE,), call(DECODE + "Decode", bytes(15 * MIB)), 40),
    Attack("15 MiB to a method that is not there, 40 at once", (), call("/x.Y/Z", bytes(15 * MIB)), 40),
    Attack(
        "messages of 15 MiB on 40 streams",
        (RULE_SPEECH,),
        unread("/beamwright.v1.RecognizeService/Recognize", [recognize()] + [bytes(15 * MIB)] * 3, 1),
        40,
    ),
    Attack(
        "recordings of 24 MB, 40 at once",
        ("POST /v1/audio/transcriptions",),
        transcription(wav(24_000_000)),
        40,
    ),
    Attack("250,000 empty sources", (RULE_DECODE,), call(DECODE + "Decode", field(3, b"") * 250_000)),
    Attack(
        "a hotword of 60,000 ids",
        (RULE_DECODE,),
        call(
            DECODE + "Decode",
            decode_request(source() * 300, field(option("hotwords"), field(2, field(1, bytes([5]) * 60_000)))),
        ),
    ),
    Attack(
        "4,096 targets to score",
        (RULE_DECODE,),
        call(
            DECODE + "Score",
            field(1, "g2p-en")
            + field(3, field(1, field(1, "a" * 100)) + field(2, field(1, "K AE1 T")) * 256) * 100,
        ),
    ),
    Attack(
        "4,096 pairs to align",
        (RULE_DECODE,),
        call(
            DECODE + "Align",
            field(1, "g2p-en")
            + field(3, field(1, field(1, "a" * 100)) + field(2, field(1, "K AE1 T " * 100))) * 4096,
        ),
    ),
    # Work.
    Attack("300 sources of beam 64", (RULE_MODELS,), post("/v1/models/g2p-en:decode", WIDE), 1),
    Attack(
        "300 sources of beam 64, clients leave",
        (RULE_MODELS,),
        post("/v1/models/g2p-en:decode", WIDE, leaves=True),
    ),
    *(
        Attack(f"a slow pattern, {name}", rules, run)
        for name, rules, run in (
            (
                "Decode",
                (RULE_DECODE,),
                call(DECODE + "Decode", lambda: decode_request(source(), field(OPTION_REGEX, fresh_pattern()))),
            ),
            (
                "StreamDecode",
                (RULE_DECODE,),
                call(
                    DECODE + "StreamDecode",
                    lambda: (
                        field(1, "g2p-en")
                        + field(3, field(1, "beam"))
                        + field(4, field(OPTION_REGEX, fresh_pattern()))
                    ),
                    1,
                ),
            ),
            (
                "Recognize",
                (RULE_SPEECH,),
                unread(
                    "/beamwright.v1.RecognizeService/Recognize", [recognize("whisper_speech", regex=SLOW)], 4
                ),
            ),
            (
                ":decode",
                (RULE_MODELS,),
                post(
                    "/v1/models/g2p-en:decode",
                    lambda: json.dumps({"sources": [{"text": "a"}], "options": {"regex": fresh_pattern()}}),
                ),
            ),
            (
                "ModelInfer",
                (OIP + "ModelInfer",),
                call(
                    OIP + "ModelInfer",
                    lambda: (
                        infer_request(b"a") + field(4, field(1, "regex") + field(2, field(3, fresh_pattern())))
                    ),
                ),
            ),
            ("transcriptions", ("POST /v1/audio/transcriptions",), transcription(wav(32000), options=PATTERN)),
            (
                "completions",
                ("POST /v1/completions",),
                post(
                    "/v1/completions",
                    lambda: json.dumps(
                        {"model": "g2p-en", "prompt": "", "options": {"regex": fresh_pattern()}}
                    ),
                ),
            ),
            (
                "WebSocket",
                (),
                websocket(
                    "model=whisper_speech&options=%7B%22regex%22:%22(.*%5BAB%5D.*)%7B490%7D%22%7D",
                    [bytes(3200)],
                    count=5,
                ),
            ),
        )
    ),
    Attack(
        "a slow pattern for 300 sources",
        (RULE_DECODE,),
        call(
            DECODE + "Decode",
            lambda: decode_request(
                source("internationalization" * 4) * 300,
                field(OPTION_REGEX, "([A-Z0-9 ]{0,3}[A-Z]?[A-Z0-9 ]?){0,200}"),
            ),
        ),
    ),
    # Pictures and sound.
    Attack(
        "pictures of 49 million pixels and more, Decode",
        (RULE_DECODE,),
        call(
            DECODE + "Decode", lambda: decode_request(field(3, field(7, picture())) * 8, model="trocr_picture")
        ),
    ),
    Attack(
        "calls with 30 pictures of 9 million pixels",
        (RULE_DECODE,),
        call(
            DECODE + "Decode",
            lambda: decode_request(field(3, field(7, fine_picture())) * 30, model="trocr_picture"),
        ),
    ),
    Attack(
        "the same, :decode",
        (RULE_MODELS,),
        picture_json("/v1/models/trocr_picture:decode", lambda one: {"sources": [{"picture": one}] * 8}),
    ),
    Attack(
        "the same, ModelInfer",
        (OIP + "ModelInfer",),
        call(OIP + "ModelInfer", lambda: infer_request(picture(), "trocr_picture", "source_picture", raw=True)),
    ),
    Attack(
        "the same, infer",
        (RULE_INFER,),
        picture_json(
            "/v2/models/trocr_picture/infer",
            lambda one: {
                "inputs": [{"name": "source_picture", "datatype": "BYTES", "shape": [1, 1], "data": [one]}]
            },
        ),
    ),
    Attack(
        "transcriptions: 50,000 parts",
        ("POST /v1/audio/transcriptions",),
        post("/v1/audio/transcriptions", form([part(f"a{i}", "x") for i in range(50_000)]), FORM),
    ),
    Attack(
        "transcriptions: 3.9 MB at 1 Hz", ("POST /v1/audio/transcriptions",), transcription(wav(3_900_000, 1))
    ),
    Attack(
        "transcriptions: 3.9 MB of silence", ("POST /v1/audio/transcriptions",), transcription(wav(3_900_000))
    ),
    Attack(
        "1 MiB pieces on 40 streams, unread",
        (RULE_SPEECH,),
        unread(
            "/beamwright.v1.RecognizeService/Recognize",
            [recognize()] + [field(2, b"\1\2" * (MIB // 2))] * 6,
            10,
        ),
    ),
    Attack(
        "200 idle streams of beam 64",
        (RULE_SPEECH,),
        idle("/beamwright.v1.RecognizeService/Recognize", [recognize(beam=64)]),
    ),
    # Translation.
    Attack(
        "documents: zip bombs, depth, parts, cues",
        ("POST /translate_file",),
        post("/translate_file", document_form, FORM),
    ),
    Attack(
        "the same, Translate",
        ("/beamwright.v1.TranslateService/*",),
        call("/beamwright.v1.TranslateService/Translate", document_message),
    ),
    Attack(
        "StreamTranslate, unread",
        ("/beamwright.v1.TranslateService/*",),
        unread(
            "/beamwright.v1.TranslateService/StreamTranslate",
            [field(2, "en") + field(3, "fr") + field(1, "w4 w6 w9! " * 20) * 2000],
        ),
    ),
    Attack(
        "/translate: 2,000 texts",
        ("POST /translate",),
        post("/translate", json.dumps({"q": ["w4 w6 w9! " * 20] * 2000, "source": "en", "target": "fr"})),
    ),
    Attack(
        "/translate: 300,000 tags",
        ("POST /translate",),
        post(
            "/translate", json.dumps({"q": "<b>" * 300_000, "source": "en", "target": "fr", "format": "html"})
        ),
    ),
    Attack("/translate: 900,000 fields", ("POST /translate",), post("/translate", b"a=1&" * 900_000, URL)),
    Attack(
        "/v2/translate: 300,000 tags",
        ("POST /v2/translate",),
        post(
            "/v2/translate",
            json.dumps(
                {"text": ["<x>" * 300_000], "source_lang": "EN", "target_lang": "FR", "tag_handling": "xml"}
            ),
        ),
    ),
    Attack(
        "/v2/translate: 50,000 texts",
        ("POST /v2/translate",),
        post("/v2/translate", json.dumps({"text": ["w4"] * 50_000, "source_lang": "EN", "target_lang": "FR"})),
    ),
    Attack("/detect: 3 MB", ("POST /detect",), post("/detect", json.dumps({"q": "abc " * 800_000}))),
    Attack(
        "/languages and /v2/usage with bodies of 4 MB",
        ("POST /languages", "POST /v2/languages", "POST /v2/usage"),
        lambda server, number, stop: post(
            random.choice(["/languages", "/v2/languages", "/v2/usage"]), b"a=1&" * 900_000, URL
        )(server, number, stop),
    ),
    # Completions, states, lists.
    Attack(
        "completions: 500,000 prompts",
        ("POST /v1/completions",),
        post("/v1/completions", b'{"model":"g2p-en","prompt":[' + b",".join([b"[5]"] * 500_000) + b"]}"),
    ),
    Attack(
        "completions: 300,000 biases",
        ("POST /v1/completions",),
        post(
            "/v1/completions",
            json.dumps({"model": "g2p-en", "prompt": "", "logit_bias": {str(i): 1 for i in range(300_000)}}),
        ),
    ),
    Attack(
        "states of 4 MiB that are no states",
        (RULE_DECODE,),
        call(
            DECODE + "Decode",
            lambda: decode_request(field(3, field(8, os.urandom(4 * MIB))) * 3, field(OPTION_STATE, 1)),
        ),
    ),
    # Open Inference.
    Attack(
        "ModelInfer: 4,096 words",
        (OIP + "ModelInfer",),
        call(
            OIP + "ModelInfer",
            field(1, "g2p-en")
            + field(
                5,
                field(1, "source_text")
                + field(2, "BYTES")
                + field(3, 4096)
                + field(3, 1)
                + field(5, field(8, "internationalization") * 4096),
            ),
        ),
        honest=4,
    ),
    Attack(
        "ModelInfer: a shape of 300,000 extents",
        (OIP + "ModelInfer",),
        call(OIP + "ModelInfer", infer_request(b"a", shape=[1] * 300_000)),
    ),
    Attack(
        "ModelStreamInfer, unread",
        (OIP + "ModelStreamInfer",),
        unread(OIP + "ModelStreamInfer", [infer_request(b"internationalization")] * 2000, 4),
        honest=16,
    ),
    Attack(
        "ModelStreamInfer, idle",
        (OIP + "ModelStreamInfer",),
        idle(OIP + "ModelStreamInfer", [infer_request(b"cat")]),
    ),
    # Calls of operators, and probes.
    Attack(
        "loads of models that are not there",
        (OIP + "*", "POST /v2/repository/models/*/load", "POST /v2/repository/models/*/unload"),
        call(OIP + "RepositoryModelLoad", field(2, "x" * 1000)),
    ),
    Attack(
        "the same model loaded again and again",
        ("POST /v2/repository/models/*/load",),
        post("/v2/repository/models/g2p-en/load", b"{}", port="admin"),
        2,
    ),
    Attack(
        "settings nested deep",
        ("POST /v2/logging", "POST /v2/repository/index", OIP + "RepositoryIndex"),
        lambda server, number, stop: post(
            random.choice(["/v2/logging", "/v2/repository/index"]), deep(), port="admin"
        )(server, number, stop),
    ),
    Attack(
        "operators' pages",
        ("GET /debug/scheduler", "GET /v2/logging"),
        get("/debug/scheduler", "/v2/logging", "/no/such", port="admin"),
        8,
    ),
    Attack(
        "lists of models and their settings",
        (
            "GET /v1/status",
            "GET /v1/models",
            "GET /v1/models/*",
            "GET /v1/models/*/versions/*",
            "GET /v2",
            "GET /v2/models/stats",
            "GET /v2/models/*",
            "GET /v2/models/*/ready",
            "GET /v2/models/*/config",
            "GET /v2/models/*/stats",
            "GET /v2/models/*/versions/*",
            "GET /v2/models/*/versions/*/ready",
            "GET /v2/models/*/versions/*/config",
            "GET /v2/models/*/versions/*/stats",
            "GET /languages",
            "GET /v2/languages",
            "GET /v2/usage",
        ),
        get(
            "/v1/status",
            "/v1/models",
            "/v1/models/g2p-en",
            "/v1/models/g2p-en/versions/1",
            "/v2",
            "/v2/models/stats",
            "/v2/models/g2p-en",
            "/v2/models/g2p-en/ready",
            "/v2/models/g2p-en/config",
            "/v2/models/g2p-en/stats",
            "/v2/models/g2p-en/versions/1",
            "/v2/models/g2p-en/versions/1/config",
            "/v2/models/g2p-en/versions/1/stats",
            "/languages",
            "/v2/languages",
            "/v2/usage",
        ),
    ),
    Attack(
        "the page and its files",
        (
            "GET /",
            "GET /page/*",
            "GET /openapi.json",
            "GET /frontend/settings",
            "GET /health",
            "GET /v2/health/live",
            "GET /v2/health/ready",
        ),
        get(
            "/",
            "/page/page.css",
            "/openapi.json",
            "/frontend/settings",
            "/health",
            "/v2/health/live",
            "/v2/health/ready",
        ),
    ),
    Attack(
        "probes and metrics",
        ("GET /livez", "GET /readyz", "GET /healthz", "GET /startupz"),
        get("/livez", "/readyz", "/healthz", "/startupz", "/metrics", port="metrics"),
        16,
    ),
    Attack(
        "metrics, 200 unread",
        (),
        connections(50, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200, "metrics", reads=False),
    ),
    Attack(
        "small calls of gRPC",
        (
            "/beamwright.v1.ModelService/ListModels",
            "/beamwright.v1.ModelService/DescribeModel",
            *(
                OIP + name
                for name in (
                    "ServerLive",
                    "ServerReady",
                    "ModelReady",
                    "ServerMetadata",
                    "ModelMetadata",
                    "ModelConfig",
                    "ModelStatistics",
                )
            ),
        ),
        lambda server, number, stop: call(
            random.choice(
                [
                    "/beamwright.v1.ModelService/ListModels",
                    "/beamwright.v1.ModelService/DescribeModel",
                    OIP + "ServerLive",
                    OIP + "ServerReady",
                    OIP + "ServerMetadata",
                    OIP + "ModelStatistics",
                ]
            ),
            b"",
        )(server, number, stop),
        8,
    ),
    Attack(
        "4,000 watchers of health",
        ("/grpc.health.v1.Health/*",),
        idle("/grpc.health.v1.Health/Watch", [b""], 1000),
    ),
    Attack(
        "reflection, unread",
        ("/grpc.reflection.v1.ServerReflection/*", "/grpc.reflection.v1alpha.ServerReflection/*"),
        unread(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            [field(4, "beamwright.v1.DecodeService")] * 500,
        ),
    ),
    Attack("unknown methods", (), call("/no.such.Service/Method", bytes(1000)), 8),
    # Slow, silent, unread.
    Attack(
        "200 StreamDecode, unread",
        (RULE_DECODE,),
        unread(
            DECODE + "StreamDecode",
            [
                field(1, "g2p-en")
                + field(3, field(1, "internationalization" * 6))
                + field(4, field(1, 64))
                + field(5, 1)
            ],
            50,
        ),
    ),
    Attack(
        "200 :streamDecode, unread",
        (RULE_MODELS,),
        connections(
            50,
            (lambda body: http_head("/v1/models/g2p-en:streamDecode", len(body)) + body)(
                json.dumps(
                    {
                        "source": {"text": "internationalization" * 6},
                        "provisional": True,
                        "options": {"beam_size": 64},
                    }
                ).encode()
            ),
            reads=False,
        ),
    ),
    *(
        Attack(
            f"400 dripping bodies, {path}", (rule,), connections(100, http_head(path, 100_000, kind), drip=b"a")
        )
        for path, rule, kind in (
            ("/v1/models/g2p-en:decode", RULE_MODELS, "application/json"),
            ("/v1/audio/transcriptions", "POST /v1/audio/transcriptions", FORM["Content-Type"]),
            ("/translate", "POST /translate", URL["Content-Type"]),
        )
    ),
    Attack(
        "400 dripping heads, admin",
        (),
        connections(100, b"GET /debug/scheduler HTTP/1.1\r\nX: ", "admin", drip=b"a"),
    ),
    Attack(
        "400 dripping heads, WebSocket", (), connections(100, b"GET / HTTP/1.1\r\nX: ", "websocket", drip=b"a")
    ),
    Attack(
        "400 incomplete messages of 1 MiB, WebSocket",
        (),
        websocket(
            "model=digits-en", frame=b"\x82\xff" + struct.pack(">Q", MIB) + bytes(MIB - 65536), count=100
        ),
    ),
    Attack(
        "200 streams with 2 MiB of noise, WebSocket",
        (),
        websocket("model=digits-en", [random.randbytes(MIB)] * 2),
    ),
    Attack(
        "a frame of 2^62 bytes, WebSocket",
        (),
        websocket("model=digits-en", frame=b"\x82\xff" + struct.pack(">Q", 1 << 62) + bytes(70_000)),
    ),
] + KEPT
