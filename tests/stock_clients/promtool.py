"""promtool: the server's metrics, the alert rules with their tests, the configuration of compose.yaml, and every query of the Grafana dashboard; what
rules and dashboard ask for must be what the server measures."""

import json
import pathlib
import re
import subprocess
import tempfile
import urllib.request

import served
import tool

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
# Only where a cgroup has them.
NOT_EVERYWHERE = {"beamwright_cpu_throttled_seconds_total"}


def queries(dashboard):
    """Every PromQL expression of a dashboard, as Grafana would send it."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["expr"]


def metrics(text):
    """Families that a query names; a histogram's parts count as the histogram."""
    for name in re.findall(r"\b(?:beamwright|process)_[a-z_]+", text):
        yield re.sub(r"_(bucket|sum|count)$", "", name)


def main():
    promtool = tool.path("promtool")
    tool.run("promtool", "check", "config", DEPLOY / "prometheus/prometheus.yaml")
    tool.run("promtool", "test", "rules", DEPLOY / "prometheus/alerts_test.yaml")
    dashboard = json.loads((DEPLOY / "grafana/beamwright.json").read_text())
    asked = set(metrics((DEPLOY / "prometheus/alerts.yaml").read_text()))
    rules = []
    for number, query in enumerate(queries(dashboard)):
        asked |= set(metrics(query))
        query = query.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$model", ".*")
        rules.append({"record": f"panel:{number}", "expr": query})
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "queries.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
        tool.run("promtool", "check", "rules", file)
    with served.server() as (address, _, process):
        served.expected(address)
        # One call that is refused, for the metric of refusals.
        subprocess.run([pathlib.Path(tool.sys.argv[1]) / "beamwright", "decode", "--server", address,
                        "--model", "none", "a"], capture_output=True)
        with urllib.request.urlopen(f"http://{process.metrics}/metrics") as reply:
            text = reply.read().decode()
        checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True,
                                 capture_output=True)
        served.check(checked.returncode == 0, checked.stdout + checked.stderr)
        measured = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
        missing = asked - measured - NOT_EVERYWHERE
        served.check(not missing, f"asked for and not measured: {sorted(missing)}")
    print(f"promtool: {len(measured)} metrics, {len(asked)} of them in rules and dashboard")


if __name__ == "__main__":
    main()
