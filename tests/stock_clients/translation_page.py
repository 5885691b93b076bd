"""Types the commands of docs/translation.md in a folder with made-up model files, and asks the server that they lead to by
libretranslatepy, npm's libretranslate and deepl, the clients of LibreTranslate and DeepL.

Usage: translation_page.py BIN MODEL TOOLS
"""

import base64
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile

import deepl
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


def ask(http, path, body, content_type="application/json"):
    """The status and the JSON of the answer."""
    data = json.dumps(body).encode() if content_type == "application/json" else body
    try:
        request = urllib.request.Request(f"http://{http}{path}", data, {"Content-Type": content_type})
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def check_markup_and_terms(http, words="w4 w6 w9!"):
    def translated(text, source="en", **members):
        status, answer = ask(http, "/translate", {"q": text, "source": source, "target": "fr", **members})
        check(status == 200, f"{text}: {status} {answer}")
        return answer["translatedText"]

    plain = translated(words)
    for html, expected in (
            (f"<ul><li class='x'>{words}</li>\n<li><!-- w4 --> 12</li></ul>",
             f"<ul><li class='x'>{plain}</li>\n<li><!-- w4 --> 12</li></ul>"),
            (f"<p><b>{words}</b></p>", f"<p><b>{plain}</b></p>")):
        check(translated(html, format="html") == expected, f"{html}: {translated(html, format='html')}")
    marked = translated("w4 <i>w6</i> <code>x</code> {name} w9!", source="es", format="html")
    check(all(marked.count(kept) == 1 for kept in ("<i>", "</i>", "<code>x</code>", "{name}")), marked)
    check(translated("w4 {name} w9!").count("{name}") == 1, "a placeholder is lost")
    term = next(word for word in ("w21!", "w33!", "w35!") if word not in translated("w4 w6 w8"))
    check(term in translated("w4 w6 w8", glossary={"w6": term}), "the term of the glossary is missing")
    check(translated("w4 w66 w8", glossary={"w6": term}) == translated("w4 w66 w8"), "w6 is not a word of w66")
    status, answer = ask(http, "/translate", {"q": "w4", "source": "es", "target": "fr", "glossary": {"w4": "w5!"}})
    check(status == 400 and "glossary: needs a model" in answer["error"], f"{status} {answer}")


def zipped(entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def check_files(http, words="w4 w6 w9!"):
    plain = ask(http, "/translate", {"q": words, "source": "en", "target": "fr"})[1]["translatedText"]

    def send(name, content):
        content = content.encode() if isinstance(content, str) else content
        parts = (("file", content, f'; filename="{name}"'), ("source", b"en", ""), ("target", b"fr", ""))
        body = b"".join(f'--x\r\nContent-Disposition: form-data; name="{field}"{more}\r\n\r\n'.encode() + value + b"\r\n"
                        for field, value, more in parts) + b"--x--\r\n"
        return ask(http, "/translate_file", body, "multipart/form-data; boundary=x")

    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    for name, content, expected in (("a.srt", f"{times}{words}\n", f"{times}{plain}\n"),
                                    ("a.html", f"<p>{words}", f"<p>{plain}"),
                                    ("a.po", f'msgid "{words}"\nmsgstr ""\n', f'msgid "{words}"\nmsgstr "{plain}"\n')):
        status, answer = send(name, content)
        check(status == 200, f"{name}: {status} {answer}")
        file = base64.b64decode(answer["translatedFileUrl"].split("base64,")[1]).decode()
        check(file == expected, f"{name}: {file!r}")
    office = (("a.docx", "word/document.xml", "<w:p><w:r><w:t>{}</w:t></w:r></w:p>",
               '<w:p><w:r><w:t xml:space="preserve">{}</w:t></w:r></w:p>'),
              ("a.odt", "content.xml", "<text:p>{}</text:p>", "<text:p>{}</text:p>"))
    for name, part, before, behind in office:
        status, answer = send(name, zipped({part: before.format(words), "media/image.png": "\x8f" * 999}))
        check(status == 200, f"{name}: {status} {answer}")
        file = zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["translatedFileUrl"].split("base64,")[1])))
        check(file.read(part).decode() == behind.format(plain), f"{name}: {file.read(part)}")
        check(file.read("media/image.png").decode() == "\x8f" * 999 and file.testzip() is None, f"{name}: the picture")
    bomb = zipped({"word/document.xml": "<w:p/>" * (2 << 20)})
    check(len(bomb) < 1 << 16, "the bomb is large")
    for name, content, message in (("a.docx", bomb, "word/document.xml: unpacks to more than is left of 8388608 bytes"),
                                   ("a.docx", "text", "file: is not a zip archive"),
                                   ("a.odt", bomb, "file: has no content.xml"),
                                   ("a.txt", b"\xff", "file: is not UTF-8")):
        status, answer = send(name, content)
        check(status == 400 and message in answer["error"], f"{name}: {status} {answer}")
    for name, message in (("a.pdf", "file: has a name that ends in none of .txt"), ("a.po", "file: line 1: ")):
        status, answer = send(name, "msgid w4\n")
        check(status == 400 and message in answer["error"], f"{name}: {status} {answer}")


def check_detection(http, spanish="El perro de mi hermana duerme todo el día en la cocina."):
    status, answer = ask(http, "/detect", {"q": spanish})
    if status == 501:
        check("libcld2" in answer["error"], str(answer))
        print("without libcld2: no language is found out")
        return
    check(answer[0]["language"] == "es" and answer[0]["confidence"] > 50, f"{status} {answer}")
    english = "The dog of my sister sleeps in the kitchen all day."
    french = "Le chien de ma sœur dort toute la journée dans la cuisine."
    for code, text in (("en", english), ("fr", french)):
        answer = ask(http, "/detect", f"q={urllib.parse.quote(text)}".encode(), "application/x-www-form-urlencoded")[1]
        check(answer[0]["language"] == code, f"{text}: {answer}")
    # Finnish is not served.
    finnish = "Siskoni koira nukkuu koko päivän keittiössä."
    check(ask(http, "/detect", {"q": finnish})[1] == [{"confidence": 0, "language": "en"}], "Finnish")
    status, answer = ask(http, "/translate", {"q": finnish, "source": "auto", "target": "fr"})
    check(status == 400 and "source: could not be found out" in answer["error"], f"{status} {answer}")
    found, named = (ask(http, "/translate", {"q": spanish, "source": source, "target": "fr"})[1] for source in ("auto", "es"))
    check(found["translatedText"] == named["translatedText"] and found["detectedLanguage"]["language"] == "es", str(found))
    # Each text by its own language, and the rest by that of all together.
    batch = [spanish, english, "", french, f"{spanish} {spanish}"]
    answer = ask(http, "/translate", {"q": batch, "source": "auto", "target": "fr"})[1]
    check([one["language"] for one in answer["detectedLanguage"]] == ["es", "en", "es", "fr", "es"], str(answer))
    alone = [ask(http, "/translate", {"q": text, "source": source, "target": "fr"})[1]["translatedText"]
             for text, source in zip(batch, ("es", "en", "es", "fr", "es"))]  # fmt: skip
    check(answer["translatedText"] == alone and alone[3] == french, f"{answer} {alone}")
    with contextlib.closing(deepl.DeepLClient("any", server_url=f"http://{http}")) as client:
        results = client.translate_text([spanish, english], target_lang="FR")
        check([result.detected_source_lang for result in results] == ["ES", "EN"], "deepl: ES, EN")


def check_deepl(http, words="w4 w6 w9! w8 w3!"):
    libre = LibreTranslateAPI(f"http://{http}")
    with contextlib.closing(deepl.DeepLClient("any", server_url=f"http://{http}")) as client:
        results = client.translate_text([words, ""], source_lang="EN", target_lang="FR")
        check([result.text for result in results] == [libre.translate(words, "en", "fr"), ""], f"deepl: {results}")
        check(results[0].detected_source_lang == "EN" and results[0].billed_characters == len(words), "deepl: EN")
        html = client.translate_text(f"<p>{words}</p><x-y>", source_lang="es", target_lang="fr", tag_handling="html")
        check(html.text.startswith("<p>") and html.text.endswith("</p><x-y>"), f"deepl: {html.text}")
        xml = client.translate_text("<a>w4 <k>w6</k> w8</a>", source_lang="en", target_lang="fr", tag_handling="xml",
                                    ignore_tags=["k"], split_sentences="nonewlines", formality="prefer_less")
        check("<k>w6</k>" in xml.text and xml.text.startswith("<a>"), f"deepl: {xml.text}")
        check([str(one) for one in client.get_source_languages()] == ["EN", "ES"], "deepl: source languages")
        check([str(one) for one in client.get_target_languages()] == ["EN", "FR"], "deepl: target languages")
        check(client.get_usage().character.count >= len(words) and not client.get_usage().any_limit_reached, "usage")
        for options, message in (({"target_lang": "XX"}, "target_lang: 'XX' is not supported"),
                                 ({"target_lang": "FR", "formality": "more"}, "formality: is not supported"),
                                 ({"target_lang": "FR", "tag_handling": "xml"}, "text[0]: ")):
            try:
                client.translate_text("<b>w4", source_lang="EN", **options)
                check(False, f"deepl: {options} is not refused")
            except deepl.DeepLException as error:
                check(error.http_status_code == 400 and message in str(error), f"deepl: {error}")


def check_npm(http, words="w4 w6 w9!"):
    source = pathlib.Path(sys.argv[3], "libretranslate/src/translate.ts")
    if not source.is_file() or shutil.which("node") is None:
        print("without Node.js: npm's libretranslate is not asked")
        return
    # The package's own build ends behind /languages, so its source is run, without its types.
    client = re.sub(r"interface \w+ \{.*?\}|: TranslateOptions|: string\[\]|export (?=const)", "", source.read_text(), flags=re.DOTALL)
    script = client + (";\nconst [apiurl, query] = process.argv.slice(1);"
                       "translate({source: 'en', target: 'fr', apiurl, query}).then((text) => console.log(text));")
    said = subprocess.run(["node", "-e", script, f"http://{http}", words], check=True, capture_output=True, text=True,
                          timeout=60).stdout
    check(said == LibreTranslateAPI(f"http://{http}").translate(words, "en", "fr") + "\n", f"npm's libretranslate: {said}")


def check_deepl_keys(http):
    with contextlib.closing(deepl.DeepLClient("key", server_url=f"http://{http}")) as client:
        check(client.translate_text("w4", source_lang="EN", target_lang="FR").text != "", "deepl: with the key")
    with contextlib.closing(deepl.DeepLClient("other", server_url=f"http://{http}")) as client:
        try:
            client.translate_text("w4", source_lang="EN", target_lang="FR")
            check(False, "deepl: a wrong key is not refused")
        except deepl.AuthorizationException:
            pass


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
            check_deepl(http)
            check_npm(http)
            check_markup_and_terms(http)
            check_files(http)
            check_detection(http)
        with server(*repository, "--auth-token-file", scratch / "tokens") as (_, http, _):
            url = f"http://{http}"
            check(LibreTranslateAPI(url, "key").translate("w4", "en", "fr") != "", "with the key")
            for key in (None, "other"):
                status, error = refused(lambda key=key: LibreTranslateAPI(url, key).translate("w4", "en", "fr"))
                check(status == 403 and "error" in error, f"key {key}: {status} {error}")
            check_deepl_keys(http)
    check(len(offline) > 1 and len(online) > 2, "the page has lost its commands")
    print(f"{len(commands)} commands print what the page says; libretranslatepy, libretranslate, deepl: good")


if __name__ == "__main__":
    main()
