"""Types the commands of docs/translation.md in a folder with made-up model files, and asks the server that they lead to by
libretranslatepy, the client of LibreTranslate.

Usage: translation_page.py BIN MODEL TOOLS
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error

import marian_files
from libretranslatepy import LibreTranslateAPI
from served import check, server

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/readme"))
sys.path.insert(0, str(ROOT / "tests/docs"))
from follow import same_lines  # noqa: E402
from run_readme import runnable_commands, stripped, translated  # noqa: E402

PAGE = ROOT / "docs/translation.md"
SHOWN = ("localhost:8001", "localhost:8000")
TOKENS = """
tokens { name: "key" sha256: "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683" roles: ROLE_DECODE }
"""  # of "key"


def type_commands(commands, scratch, here):
    environment = dict(os.environ, PATH=f"{pathlib.Path(sys.argv[1]).resolve()}:{os.environ['PATH']}",
                       BEAMWRIGHT_SERVER=here[0])
    for number, command, expected in commands:
        done = subprocess.run(["bash", "-c", translated(command, SHOWN, here)], text=True, env=environment,
                              cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        printed = done.stdout.splitlines()
        check(same_lines(stripped(expected), stripped(printed)),
              f"translation.md:{number}: $ {command}\nprints\n" + "\n".join(printed) +
              "\nthe page says\n" + "\n".join(expected))


def refused(call):
    """The HTTP status of a call, and what its body says."""
    try:
        call()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    return 200, ""


def check_client(http):
    client = LibreTranslateAPI(f"http://{http}")
    check([language["code"] for language in client.languages()] == ["en", "es", "fr"], "languages")
    words = "w4 w6 w9! w8 w3!"
    text = client.translate(f"  {words}\n\n\t{words} ", "en", "fr")
    both = client.translate(words, "en", "fr")
    check(text == f"  {both}\n\n\t{both} ", f"{text!r} of {both!r}")
    check(client.translate(words, "es", "fr") == client.translate(client.translate(words, "es", "en"), "en", "fr"),
          "Spanish to French is not Spanish to English to French")
    status, error = refused(lambda: client.translate(words, "en", "xx"))
    check(status == 400 and "target: 'xx' is not supported" in error, f"{status} {error}")


def main():
    commands = list(runnable_commands(PAGE.read_text(encoding="utf-8")))
    offline = [command for command in commands if "localhost" not in command[1]]
    online = [command for command in commands if "localhost" in command[1]]
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for direction in ("enfr", "esen"):
            marian_files.write(scratch, direction)
        (scratch / "tokens").write_text(TOKENS)
        type_commands(offline, scratch, SHOWN)
        repository = ("--model-repository", scratch / "models")
        with server(*repository) as (grpc, http, _):
            type_commands(online, scratch, (grpc, http))
            check_client(http)
        with server(*repository, "--auth-token-file", scratch / "tokens") as (_, http, _):
            url = f"http://{http}"
            check(LibreTranslateAPI(url, "key").translate("w4", "en", "fr") != "", "with the key")
            for key in (None, "other"):
                status, error = refused(lambda key=key: LibreTranslateAPI(url, key).translate("w4", "en", "fr"))
                check(status == 403 and "error" in error, f"key {key}: {status} {error}")
    check(len(offline) > 1 and len(online) > 2, "the page has lost its commands")
    print(f"{len(commands)} commands print what the page says; libretranslatepy: good")


if __name__ == "__main__":
    main()
