"""client.translate against a server with a small made-up translation model."""

import asyncio
import io
import os
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

import beamwright

sys.path.insert(0, str(ROOT / "tests" / "stock_clients"))
import marian_files


@pytest.fixture(scope="module")
def translation_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translation")
    marian_files.write(folder, "enfr")
    subprocess.run(
        [os.environ["BEAMWRIGHT_GRAPH_PROGRAM"], "init", "model.enfr.intgemm.alphas.bin", "--source-vocabulary",
         "vocab.enfr.spm", "--target-vocabulary", "vocab.enfr.spm", "--out", "enfr"],
        cwd=folder, check=True, capture_output=True)  # fmt: skip
    with beamwright.serve(folder / "enfr", threads=1) as running:
        yield running


def test_a_text_and_a_list_of_texts(translation_server):
    with translation_server.client() as client:
        first = client.translate("w4 w6 w9!", source="en", target="fr")
        assert first.text == str(first) == client.decode("w4 w6 w9!").text
        assert (first.source_language, first.target_language, first.alternatives) == ("en", "fr", ())
        both = client.translate(("  w4 w6 w9!\n", ""), source="en-GB", target="fr", alternatives=2)
        assert [one.text for one in both] == [f"  {first.text}\n", ""]
        assert len(both[0].alternatives) == 2 and both[1].alternatives == ()


def test_markup_and_a_glossary(translation_server):
    with translation_server.client() as client:
        text = client.translate("w4 w6 w9!", source="en", target="fr").text
        html = client.translate("<p><b>w4 w6 w9!</b></p>", source="en", target="fr", text_format="html")
        assert html.text == f"<p><b>{text}</b></p>"
        term = next(word for word in ("w21!", "w33!") if word not in text)
        assert term in client.translate("w4 w6 w9!", source="en", target="fr", glossary={"w6": term}).text


def test_the_asynchronous_client_says_the_same(translation_server):
    async def ask():
        async with beamwright.AsyncClient(translation_server.address) as client:
            return await client.translate(["w4 w6 w9!"], source="en", target="fr", alternatives=1)

    with translation_server.client() as client:
        assert asyncio.run(ask()) == client.translate(["w4 w6 w9!"], source="en", target="fr", alternatives=1)


def test_an_office_file(translation_server):
    def zipped(part):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("content.xml", part)
        return file.getvalue()

    with translation_server.client() as client:
        text = client.translate("w4 w6 w9!", source="en", target="fr").text
        given = zipped("<text:p>w4 w6 w9!</text:p>")
        file = client.translate_document(given, source="en", target="fr", document_format="odt")
        assert zipfile.ZipFile(io.BytesIO(file)).read("content.xml").decode() == f"<text:p>{text}</text:p>"
        with pytest.raises(beamwright.InvalidArgumentError) as caught:
            client.translate_document(given, source="en", target="fr", document_format="docx")
        assert [fault.field for fault in caught.value.violations] == ["document"]
        with pytest.raises(beamwright.InvalidArgumentError):
            client.translate_document(given, source="en", target="fr", document_format="pdf")
        with pytest.raises(beamwright.ArgumentTypeError):
            client.translate_document("a.odt", source="en", target="fr", document_format="odt")


def test_errors_name_their_field(translation_server):
    with translation_server.client() as client:
        with pytest.raises(beamwright.InvalidArgumentError) as caught:
            client.translate("w4", source="en", target="xx")
        assert [fault.field for fault in caught.value.violations] == ["target_language"]
        with pytest.raises(beamwright.InvalidArgumentError):
            client.translate("w4", source="en", target="fr", alternatives=17)
        with pytest.raises(beamwright.InvalidArgumentError):
            client.translate("w4", source="en", target="fr", text_format="md")
        for texts, source in ((1, "en"), ([1], "en"), (b"w4", "en"), ("w4", None)):
            with pytest.raises(beamwright.ArgumentTypeError):
                client.translate(texts, source=source, target="fr")
