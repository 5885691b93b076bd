"""The HTTP API as browsers of other origins ask it (CORS), and as people type its paths."""

import http.client
import json
import pathlib
import subprocess
import sys

import served

ORIGIN = "https://app.example.org"
DECODE = "/v1/models/g2p-en:decode"
BODY = json.dumps({"sources": [{"text": "cat"}]})


def ask(address, method, path, headers=None, body=None):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, body=body, headers=headers or {})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, text


def preflight(address, origin):
    return ask(address, "OPTIONS", DECODE, {
        "Origin": origin, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type"})


def check_named_origins():
    with served.server("--http-cors-origins", f"{ORIGIN},http://localhost:3000") as (_, address, _):
        for origin in (ORIGIN, "http://localhost:3000"):
            status, headers, _ = preflight(address, origin)
            served.check(status == 204 and headers["access-control-allow-origin"] == origin, headers)
            served.check("POST" in headers["access-control-allow-methods"], headers)
            served.check({"authorization", "content-type"} <= set(
                headers["access-control-allow-headers"].split(", ")), headers)
            served.check("access-control-allow-credentials" not in headers, headers)
            status, headers, text = ask(address, "POST", DECODE, {"Origin": origin, "Content-Type": "application/json"},
                                        BODY)
            served.check(status == 200 and headers["access-control-allow-origin"] == origin and "K AE1 T" in text, text)
            # Errors and streams are read by pages, too.
            status, headers, _ = ask(address, "GET", "/v1/models/none", {"Origin": origin})
            served.check(status == 404 and headers["access-control-allow-origin"] == origin, headers)
            status, headers, _ = ask(address, "POST", "/v1/models/g2p-en:streamDecode", {"Origin": origin},
                                     json.dumps({"source": {"text": "cat"}}))
            served.check(status == 200 and headers["access-control-allow-origin"] == origin, headers)
        for origin in ("https://evil.example.org", ORIGIN + ":444", "http://app.example.org", "null"):
            status, headers, _ = preflight(address, origin)
            served.check(status == 403 and "access-control-allow-origin" not in headers, headers)
            status, headers, _ = ask(address, "POST", DECODE, {"Origin": origin}, BODY)
            served.check(status == 403 and "access-control-allow-origin" not in headers, headers)
            status, headers, _ = ask(address, "GET", "/v1/models", {"Origin": origin})
            served.check(status == 200 and "access-control-allow-origin" not in headers and headers["vary"] == "Origin", headers)


def check_defaults():
    with served.server("--page", "false") as (_, address, _):
        status, headers, _ = preflight(address, ORIGIN)
        served.check(status == 405 and "access-control-allow-origin" not in headers, f"{status} {headers}")
        status, headers, text = ask(address, "POST", DECODE, {"Origin": ORIGIN}, BODY)
        served.check(status == 403 and "http-cors-origins" in text, text)
        served.check("access-control-allow-origin" not in headers and "vary" not in headers, headers)
        # Paths as people type them.
        for path in ("/v1/models/", "/v2/", "/v2/models/g2p-en/", "/openapi.json/", "/livez/"):
            status, _, text = ask(address, "GET", path)
            served.check(status == 200, f"{path}: {status} {text}")
        status, _, _ = ask(address, "POST", DECODE + "/", body=BODY)
        served.check(status == 200, status)
        served.check(ask(address, "GET", "/v1/models//")[0] == 404, "//")
        status, _, text = ask(address, "GET", "/")
        served.check(status == 200 and json.loads(text)["description"] == "/openapi.json", text)
        served.check(ask(address, "POST", "/", body="")[0] == 405, "POST /")


def check_nonsense():
    for origin in ("*", "app.example.org", "https://App.example.org", "https://app.example.org/", "https://a.b:443",
                   "https://", "https://a b", "http://a:0"):
        done = subprocess.run([pathlib.Path(sys.argv[1]) / "beamwright-server", "--model-path", sys.argv[2],
                               "--http-cors-origins", origin, "--check-config"], capture_output=True, text=True)
        served.check(done.returncode != 0 and "http-cors-origins" in done.stderr + done.stdout and origin in
                     done.stderr + done.stdout, f"{origin}: {done}")


if __name__ == "__main__":
    check_nonsense()
    check_named_origins()
    check_defaults()
    print("other origins, slashes and /: good")
