#!/usr/bin/env python3
"""Runs what the chart renders as a kubelet would, without one.

Usage: run_pod.py HELM BIN MODELS. In separate namespaces: the pod's command and arguments, as its user, with models
and secrets mounted where the pod has them; its probes, asked by their own ports and paths; secrets replaced as the
kubelet replaces them; SIGTERM, and the end within the grace period. Then what it does with models that are not there.
"""

import contextlib
import hashlib
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import sandbox

VALUES = {
    "models": {"source": "claim", "claim": {"name": "models"}, "control": "poll", "pollInterval": "200ms"},
    "tls": {"secretName": "tls"}, "tokens": {"secretName": "tokens"},
    "drain": {"delay": 8, "timeout": 10},  # the probes are asked in the delay, however slowly
    "settings": {"security-refresh": "50ms", "threads": 1},
}


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def becomes(question, what, seconds=60):
    until = time.monotonic() + seconds
    while not question():
        check(time.monotonic() < until, what)
        time.sleep(0.02)


class Secret:
    """A secret as the kubelet mounts it: files are links through ..data to a folder of this version."""

    def __init__(self, path, files):
        self.path, self.version = path, 0
        path.mkdir(parents=True)
        self.write(files)
        for name in files:
            (path / name).symlink_to(f"..data/{name}")

    def write(self, files):
        self.version += 1
        folder = self.path / f"..{self.version}"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o644)
        (self.path / "..new").symlink_to(folder.name)
        (self.path / "..new").rename(self.path / "..data")


def certificate(folder):
    files = {name: folder / name for name in ("tls.key", "tls.crt")}
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
                    files["tls.key"], "-out", files["tls.crt"]], check=True, capture_output=True)
    return {name: file.read_bytes() for name, file in files.items()}


def tokens(token):
    digest = hashlib.sha256(token.encode()).hexdigest()
    return {"tokens.textproto": f'tokens {{ name: "a" sha256: "{digest}" roles: ROLE_DECODE }}\n'.encode()}


def ask(container, probe):
    """The HTTP status of a probe as the pod has it."""
    get = container[probe]["httpGet"]
    port = next(port["containerPort"] for port in container["ports"] if port["name"] == get["port"])
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{get['path']}", timeout=5) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


class Pod:
    """The pod's only container as a process. What the pod mounts at /models and /etc/beamwright is in `scratch`."""

    def __init__(self, pod, programs, scratch):
        self.spec, self.container, self.log = pod, pod["containers"][0], scratch / "log"
        user = pod["securityContext"]["runAsUser"]
        [program] = self.container["command"]
        arguments = [argument.replace("=/models", f"={scratch}/models").replace("=/etc/beamwright", f"={scratch}/etc")
                     for argument in self.container["args"]]
        with self.log.open("w") as output:
            self.process = subprocess.Popen([programs / program, *arguments], user=user, group=user, extra_groups=[],
                                            cwd="/", stdout=output, stderr=output)

    def ready(self):
        check(self.process.poll() is None, self.log.read_text())
        return ask(self.container, "startupProbe") == 200 and ask(self.container, "readinessProbe") == 200

    def end(self):
        """SIGTERM; what the probes said while it drained; the exit code, or None beyond the grace period."""
        self.process.send_signal(signal.SIGTERM)
        becomes(lambda: ask(self.container, "readinessProbe") != 200, "it is ready although it is stopping")
        said = ask(self.container, "readinessProbe"), ask(self.container, "livenessProbe")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.spec["terminationGracePeriodSeconds"])
        return said, self.process.poll()


def decode(programs, token_file, ca, token):
    """How `beamwright decode` ends with a token, believing in one certificate."""
    token_file.write_text(token)
    return subprocess.run([programs / "beamwright", "decode", "--server", "localhost:8001", "--tls-ca", ca, "--token-file",
                           token_file, "cat"], capture_output=True, text=True)


def check_running(pod, programs, scratch):
    first, second = scratch / "first", scratch / "second"
    for folder in (first, second):
        folder.mkdir()
    tls = Secret(scratch / "etc/tls", certificate(first))
    access = Secret(scratch / "etc/tokens", tokens("old"))
    token = scratch / "token"
    running = Pod(pod, programs, scratch)
    becomes(running.ready, "it does not get ready")
    check(ask(running.container, "livenessProbe") == 200, "not live")
    answer = decode(programs, token, first / "tls.crt", "old")
    check(answer.returncode == 0, answer.stderr)
    access.write(tokens("new"))
    becomes(lambda: decode(programs, token, first / "tls.crt", "new").returncode == 0, "the new token is not taken")
    check(decode(programs, token, first / "tls.crt", "old").returncode != 0, "the old token is still taken")
    tls.write(certificate(second))
    becomes(lambda: decode(programs, token, second / "tls.crt", "new").returncode == 0, "the new certificate is not used")
    said, code = running.end()
    check(said == (503, 200), f"while it drained, readiness and liveness were {said}")
    check(code == 0, f"exit code {code}\n{running.log.read_text()}")


def check_refused(pod, programs, scratch, message, what):
    running = Pod(pod, programs, scratch)
    try:
        code = running.process.wait(60)
    finally:
        running.process.kill()
    check(code != 0 and message in running.log.read_text(), f"{what}: {code}\n{running.log.read_text()}")


def check_models_and_secrets_that_are_not_there(rendered, programs, models, scratch):
    from chart import pod_of
    plain = {name: value for name, value in VALUES.items() if name not in ("tls", "tokens")}
    pod = pod_of(rendered.manifests(plain))
    mounted = scratch / "models"
    shutil.rmtree(mounted / "g2p-en")
    check_refused(pod, programs, scratch, "holds no model (<model>/<version>/)", "an empty volume")
    half = mounted / "g2p-en/1"
    half.mkdir(parents=True)
    for file in (models / "g2p-en/1").iterdir():
        (half / file.name).write_bytes(file.read_bytes()[:1000])
    check_refused(pod, programs, scratch, "MANIFEST.sha256", "a model that is half copied")
    (scratch / "etc/tls/..data").unlink()
    pod = pod_of(rendered.manifests(VALUES))
    check_refused(pod, programs, scratch, "TLS: cannot open", "a secret without its files")


def main():
    helm, programs, models = map(pathlib.Path, sys.argv[1:4])
    programs, models = programs.resolve(), models.resolve()
    if not helm.exists():
        print(f"{helm} is missing: ./dev test installs it")
        sys.exit(77)
    sandbox.enter()
    import chart  # needs YAML, which the test's environment has
    rendered = chart.Chart(helm)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        scratch.chmod(0o755)
        # Only the one model: calls need not name it.
        shutil.copytree(models / "g2p-en", scratch / "models/g2p-en")
        check_running(chart.pod_of(rendered.manifests(VALUES)), programs, scratch)
        check_models_and_secrets_that_are_not_there(rendered, programs, models, scratch)
    print("started, probed, given new secrets, stopped; and refused what is not there")


if __name__ == "__main__":
    main()
