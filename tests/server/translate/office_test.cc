// Texts of .docx and .odt files: whatever order a translation has, each of its words is in a run,
// nothing else of the file changes, and files that are made to harm are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/translate/markup.h"
#include "server/translate/office_files.h"
#include "tests/support/zip_file.h"

namespace beamwright::translate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::ZipFile;

constexpr char kText[] = "<w:t xml:space=\"preserve\">";

absl::StatusOr<Document> PartOf(const std::string& xml, OfficeKind kind) {
  return kind == OfficeKind::kOdt ? ParseOpenDocumentPart(xml) : ParseWordPart(xml);
}

Document ParsePart(const std::string& xml, OfficeKind kind = OfficeKind::kDocx) {
  absl::StatusOr<Document> document = PartOf(xml, kind);
  EXPECT_TRUE(document.ok()) << document.status() << "\n" << xml;
  return document.ok() ? *std::move(document) : Document();
}

std::string PartFault(const std::string& xml, OfficeKind kind = OfficeKind::kDocx) {
  return std::string(PartOf(xml, kind).status().message());
}

// The document whose only unit has these words, each from the byte of the source that is given.
std::string TranslatedPart(const Document& document,
                           const std::vector<std::pair<std::string, size_t>>& target) {
  EXPECT_EQ(document.units.size(), 1U);
  std::string text;
  std::vector<Word> words;
  for (const auto& [word, source] : target) {
    text += text.empty() ? "" : " ";
    words.push_back({text.size(), text.size() + word.size(), source});
    text += word;
  }
  return WriteDocument(document, {CarryOver(document.units[0], text, words)});
}

std::string RunOf(const std::string& text, const std::string& format = "") {
  return absl::StrCat("<w:r>", format, kText, text, "</w:t></w:r>");
}

TEST(OfficeTest, AWordIsAlwaysInARunAndKeepsItsFormat) {
  const std::string bold = "<w:rPr><w:b/></w:rPr>";
  const Document document = ParsePart(
      "<w:body><w:p w:id=\"1\"><w:pPr><w:jc/></w:pPr><w:r w:rsid=\"7\"><w:t>the red &amp; "
      "</w:t></w:r><w:r>" +
      bold +
      "<w:t xml:space=\"preserve\"> house </w:t></w:r>"
      "<w:proofErr/><w:r><w:t xml:space=\"preserve\">is big</w:t></w:r></w:p></w:body>");
  EXPECT_EQ(document.units[0].text, "the red & house is big");
  const std::string before = "<w:body><w:p w:id=\"1\"><w:pPr><w:jc/></w:pPr>";
  EXPECT_EQ(TranslatedPart(document, {{"Haus", 10}, {"<rot>", 4}, {"groß", 19}}),
            absl::StrCat(before, RunOf(""), RunOf("Haus", bold), RunOf(" &lt;rot&gt; groß"),
                         "</w:p></w:body>"));
  EXPECT_EQ(
      TranslatedPart(document, {{"groß", 19}, {"Haus", 10}}),
      absl::StrCat(before, RunOf("groß "), RunOf("Haus", bold), RunOf(""), "</w:p></w:body>"));
}

TEST(OfficeTest, LinksFieldsAndPicturesStayAndMarksGoAround) {
  const std::string link = "<w:hyperlink r:id=\"r1\">";
  const std::string blue = "<w:rPr><w:color/></w:rPr>";
  const std::string field =
      "<w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>"
      "<w:r><w:fldChar w:fldCharType=\"separate\"/></w:r><w:r><w:t>7</w:t></w:r>"
      "<w:r><w:fldChar w:fldCharType=\"end\"/></w:r>";
  const std::string picture =
      "<w:drawing><wp:inline><w:p><w:r><w:t>1.5</w:t></w:r></w:p></wp:inline></w:drawing>";
  const Document document = ParsePart(
      absl::StrCat("<w:p><w:bookmarkStart w:id=\"0\"/><w:r><w:t>See page </w:t></w:r>", field,
                   "<w:r>", picture, "</w:r>", link, "<w:r>", blue,
                   "<w:t>here now</w:t></w:r></w:hyperlink>", "<w:bookmarkEnd w:id=\"0\"/></w:p>"));
  EXPECT_EQ(document.units[0].text, "See page7here now");
  EXPECT_EQ(TranslatedPart(document, {{"ici", 10}, {"sept", 8}, {"Voir", 0}}),
            absl::StrCat("<w:p><w:bookmarkStart w:id=\"0\"/>", RunOf(""), link, RunOf("ici", blue),
                         "</w:hyperlink>", RunOf(" "), field, RunOf(""), "<w:r>", picture, "</w:r>",
                         RunOf(" Voir"), "<w:bookmarkEnd w:id=\"0\"/></w:p>"));
}

TEST(OfficeTest, WhatHasNoTextOfItsOwnStaysByteForByte) {
  for (const std::string xml :
       {"<?xml version=\"1.0\"?><!-- x --><w:p/><w:p ><w:r><w:t>1.5 %</w:t></w:r></w:p>",
        // A table of contents is a field over many paragraphs.
        "<w:p><w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:t>Chapter</w:t></w:r></w:p>",
        "<w:p><w:r><w:t>Chapter</w:t></w:r><w:r><w:fldChar w:fldCharType=\"end\"/></w:r></w:p>",
        "<w:tbl><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:tbl>"}) {
    const Document document = ParsePart(xml);
    EXPECT_TRUE(document.units.empty()) << xml;
    EXPECT_EQ(WriteDocument(document, {}), xml);
  }
}

TEST(OfficeTest, OpenDocumentHasTextBetweenTags) {
  const Document document = ParsePart(
      "<text:h>One</text:h><text:p text:style-name=\"P\"><text:bookmark-start/>the\n "
      "<text:span x=\"T\">red</text:span> house<text:line-break/>is<text:note><text:p>*"
      "</text:p></text:note><text:bookmark-end/></text:p>",
      OfficeKind::kOdt);
  ASSERT_EQ(document.units.size(), 2U);
  EXPECT_EQ(document.units[1].text, "the red house is");
  EXPECT_EQ(WriteDocument(document, document.units),
            "<text:h>One</text:h><text:p text:style-name=\"P\"><text:bookmark-start/>the "
            "<text:span x=\"T\">red</text:span> house<text:line-break/>is<text:note><text:p>*"
            "</text:p></text:note><text:bookmark-end/></text:p>");
}

// The document with each unit in capitals.
std::string InCapitals(const Document& document) {
  std::vector<MarkedText> units;
  for (const MarkedText& unit : document.units) {
    const std::string text = absl::AsciiStrToUpper(unit.text);
    units.push_back(CarryOver(unit, text, {{0, text.size(), 0}}));
  }
  return WriteDocument(document, units);
}

TEST(OfficeTest, TextsOfBoxesAndNotesAreTranslatedWhereTheyAre) {
  const auto note = [](const std::string& text) {
    return absl::StrCat("<text:note id=\"n\"><text:note-citation>1</text:note-citation>",
                        "<text:note-body><text:p>", text, "</text:p></text:note-body></text:note>");
  };
  const auto paragraph = [](const std::string& text) {
    return absl::StrCat("<text:p>", text, "</text:p>");
  };
  // In a text, in a paragraph that has no other text, and within each other.
  for (const std::string& box :
       {note("small print"),
        absl::StrCat("<draw:text-box>", note("one"), note("two"), "</draw:text-box>"),
        note(absl::StrCat("outer", note("inner")))}) {
    const std::string part = absl::StrCat(paragraph(absl::StrCat("body", box)), paragraph(box));
    const Document document = ParsePart(part, OfficeKind::kOdt);
    EXPECT_GE(document.units.size(), 3U);
    EXPECT_EQ(WriteDocument(document, document.units), part);
    const std::string expected = absl::StrReplaceAll(part, {{">body", ">BODY"},
                                                            {"small print", "SMALL PRINT"},
                                                            {">one<", ">ONE<"},
                                                            {">two<", ">TWO<"},
                                                            {"outer", "OUTER"},
                                                            {">inner<", ">INNER<"}});
    EXPECT_EQ(InCapitals(document), expected);
  }
  const std::string run = RunOf("in a box");
  const auto in_box = [&](const std::string& text) {
    return absl::StrCat("<w:p><w:r><w:pict><v:textbox><w:p>", text,
                        "</w:p></v:textbox></w:pict></w:r></w:p>");
  };
  const Document word = ParsePart(in_box(run));
  EXPECT_EQ(InCapitals(word), in_box(RunOf("IN A BOX")));
  // Marks in the text itself are no marks.
  const std::string marked = absl::StrCat("<text:p>a \x01", "0\x02 b", note("c"), "</text:p>");
  const Document kept = ParsePart(marked, OfficeKind::kOdt);
  EXPECT_EQ(kept.units.size(), 1U);
  EXPECT_EQ(WriteDocument(kept, kept.units), marked);
}

TEST(OfficeTest, PartsThatAreNotBalancedAreErrors) {
  EXPECT_THAT(PartFault("<w:p><w:r></w:p>"), HasSubstr("</w:p> closes <w:r>"));
  EXPECT_THAT(PartFault("<w:p><w:r>"), HasSubstr("is not closed"));
  EXPECT_THAT(PartFault("<!DOCTYPE x [<!ENTITY a \"b\">]><w:p/>"), HasSubstr("begins no tag"));
  std::string deep = "<w:p>";
  for (int i = 0; i < 100'000; ++i) {
    deep += "<w:x>";
  }
  EXPECT_THAT(PartFault(deep), HasSubstr("nested deeper"));
  deep = absl::StrReplaceAll(deep, {{"w:p", "text:p"}, {"w:x", "text:span"}});
  EXPECT_THAT(PartFault(deep, OfficeKind::kOdt), HasSubstr("nested deeper"));
}

// Each tab would be written with its run's format twice.
TEST(OfficeTest, LongFormatsAreNotRepeatedWithoutBound) {
  const auto part_of = [](size_t size, int tabs) {
    std::string part =
        absl::StrCat("<w:p><w:r><w:rPr>", std::string(size, ' '), "</w:rPr><w:t>a</w:t>");
    for (int i = 0; i < tabs; ++i) {
      part += "<w:tab/>";
    }
    return part + "</w:r></w:p>";
  };
  EXPECT_THAT(PartFault(part_of(4000, 100'000)), HasSubstr("formats of more than 33554432 bytes"));
  const std::string long_format = part_of(100'000, 100'000);
  EXPECT_EQ(WriteDocument(ParsePart(long_format), {}), long_format);
}

TEST(OfficeTest, OnlyPartsWithTextAreReadAndOnlyTheyChange) {
  const std::string image(1000, '\x8f');
  const std::string file = ZipFile({{"[Content_Types].xml", "<Types/>"},
                                    {"word/document.xml", "<w:p/>"},
                                    {"word/header12.xml", "<w:hdr/>"},
                                    {"word/headers.xml", "<no/>"},
                                    {"../../etc/passwd", "root"},
                                    {"word/media/image.png", image}});
  const auto parts = ReadOfficeFile(file, OfficeKind::kDocx);
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 2U);
  EXPECT_EQ((*parts)[0].name, "word/document.xml");
  EXPECT_EQ((*parts)[1].xml, "<w:hdr/>");
  const auto written = WriteOfficeFile(file, {{"word/document.xml", "<w:p>longer</w:p>"}});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(*written, *WriteOfficeFile(file, {{"word/document.xml", "<w:p>longer</w:p>"}}));
  EXPECT_THAT(*written, HasSubstr(image));
  EXPECT_THAT(*written, HasSubstr("../../etc/passwd"));
  const auto again = ReadOfficeFile(*written, OfficeKind::kDocx);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[0].xml, "<w:p>longer</w:p>");
  EXPECT_EQ((*again)[1].xml, "<w:hdr/>");
}

TEST(OfficeTest, FilesThatAreMadeToHarmAreErrors) {
  const auto fault = [](const std::string& file, OfficeKind kind = OfficeKind::kDocx) {
    return std::string(ReadOfficeFile(file, kind).status().message());
  };
  const std::string good = ZipFile({{"word/document.xml", "<w:p/>"}});
  ASSERT_EQ(fault(good), "");
  EXPECT_THAT(fault("text"), HasSubstr("is not a zip archive"));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(fault(good.substr(0, size)), "") << size;
  }
  EXPECT_THAT(fault(good, OfficeKind::kOdt), HasSubstr("has no content.xml; is it an .odt"));
  EXPECT_THAT(fault(ZipFile({{"word/document.xml", ""}, {"word/document.xml", ""}})),
              HasSubstr("entry 1 has the name of another one"));
  EXPECT_THAT(fault(ZipFile({{"word/document.xml", "\xff"}})),
              HasSubstr("word/document.xml: is not UTF-8"));
  EXPECT_THAT(fault(ZipFile({{"word/document.xml", std::string(kMaxOfficeXmlBytes / 2 + 1, ' ')},
                             {"word/header1.xml", std::string(kMaxOfficeXmlBytes / 2, ' ')}})),
              HasSubstr("word/header1.xml: unpacks to more than is left"));
  std::vector<std::pair<std::string, std::string>> many = {{"word/document.xml", "<w:p/>"}};
  for (int64_t i = 0; i < kMaxOfficeEntries; ++i) {
    many.emplace_back(absl::StrCat(i), "");
  }
  EXPECT_THAT(fault(ZipFile(many)), HasSubstr("has 4097 entries; at most 4096"));
  std::string encrypted = good;
  encrypted[6] = encrypted[encrypted.find("PK\x01\x02") + 8] = 1;
  EXPECT_THAT(fault(encrypted), HasSubstr("is encrypted"));
  for (size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    if (const auto parts = ReadOfficeFile(damaged, OfficeKind::kDocx); parts.ok()) {
      static_cast<void>(WriteOfficeFile(damaged, *parts));
    }
  }
}

}  // namespace
}  // namespace beamwright::translate
