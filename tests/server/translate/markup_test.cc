#include "server/translate/markup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace beamwright::translate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Document Parse(const std::string& text, v1::TextFormat format = v1::TEXT_FORMAT_HTML,
               std::vector<std::string> ignored = {}) {
  v1::TranslateRequest options;
  options.set_format(format);
  options.mutable_ignored_tags()->Assign(ignored.begin(), ignored.end());
  absl::StatusOr<Document> document = ParseDocument(text, options);
  EXPECT_TRUE(document.ok()) << document.status() << "\n" << text;
  return document.ok() ? *std::move(document) : Document();
}

std::string Fault(const std::string& text, v1::TextFormat format) {
  v1::TranslateRequest options;
  options.set_format(format);
  return std::string(ParseDocument(text, options).status().message());
}

std::vector<std::string> Units(const Document& document) {
  std::vector<std::string> texts;
  for (const MarkedText& unit : document.units) {
    texts.push_back(unit.text);
  }
  return texts;
}

// Words between spaces, each from the word of the same number in `order`.
MarkedText Translated(const MarkedText& unit, const std::vector<std::string>& target,
                      const std::vector<int>& order) {
  std::vector<size_t> sources;
  for (size_t at = 0; at < unit.text.size(); ++at) {
    if (unit.text[at] != ' ' && (at == 0 || unit.text[at - 1] == ' ')) {
      sources.push_back(at);
    }
  }
  std::string text;
  std::vector<Word> words;
  for (size_t i = 0; i < target.size(); ++i) {
    text += i == 0 ? "" : " ";
    const bool is_known = i < order.size() && order[i] >= 0;
    words.push_back({text.size(), text.size() + target[i].size(),
                     is_known ? sources[static_cast<size_t>(order[i])] : Word::kUnknown});
    text += target[i];
  }
  return CarryOver(unit, text, words);
}

TEST(MarkupTest, UnitsAreWhatIsBetweenBlocks) {
  const std::string html =
      "<!DOCTYPE html><head><title>A title</title><script>var x = '<p>no</p>';</script></head>\n"
      "<p class=\"a>b\">One &eacute;&lt;  two\n <b>three</b>.</p> <!-- no --> <ul><li>Four"
      "<li>5 6</ul><br>tail &unknown; end";
  const Document document = Parse(html);
  EXPECT_THAT(Units(document), ElementsAre("A title", "One é< two three.", "Four", "tail  end"));
  // Nothing changed but white space and references that need not be.
  EXPECT_EQ(
      WriteDocument(document, document.units),
      "<!DOCTYPE html><head><title>A title</title><script>var x = '<p>no</p>';</script></head>"
      "\n<p class=\"a>b\">One é&lt; two <b>three</b>.</p> <!-- no --> <ul><li>Four<li>5 6</ul>"
      "<br>tail &unknown; end");
}

TEST(MarkupTest, ElementsGoToTheWordsThatComeFromTheirContent) {
  const Document document = Parse("the <a href='x'>red <i>house</i></a> is <b>big</b>");
  ASSERT_EQ(document.units.size(), 1U);
  const MarkedText moved =
      Translated(document.units[0], {"groß", "ist", "das", "Haus", "rote"}, {4, 3, 0, 2, 1});
  EXPECT_EQ(WriteMarked(moved, true), "<b>groß</b> ist das <a href='x'><i>Haus</i> rote</a>");
  // Words in two places: the longest run; a word that comes from nothing goes with the one before.
  EXPECT_EQ(WriteMarked(Translated(Parse("a <b>c d e</b>").units[0], {"C", "A", "A", "D", "?", "E"},
                                   {1, 0, 0, 2, -1, 3}),
                        true),
            "C A A <b>D ? E</b>");
  EXPECT_EQ(WriteMarked(Translated(Parse("<b>c d</b>").units[0], {"C", "D"}, {-1, 1}), true),
            "<b>C D</b>");
  // No word: the element stays, and is empty.
  EXPECT_EQ(WriteMarked(Translated(Parse("a <b>c</b> d").units[0], {"A", "D"}, {0, 2}), true),
            "A <b></b>D");
}

TEST(MarkupTest, WhatIsNotTranslatedStaysAsItIs) {
  const Document document = Parse(
      "Use <code>a &amp;&amp; b</code> and <span translate=no>Foo <i>Bar</i></span> {name} %1$s at "
      "https://x.org/a?b=1&amp;c=2. Mail a.b@c.org");
  ASSERT_EQ(document.units.size(), 1U);
  std::vector<std::string> kept;
  for (const Element& element : document.units[0].elements) {
    EXPECT_TRUE(element.is_verbatim);
    kept.push_back(element.open);
  }
  EXPECT_THAT(kept,
              ElementsAre("<code>a &amp;&amp; b</code>", "<span translate=no>Foo <i>Bar</i></span>",
                          "{name}", "%1$s", "https://x.org/a?b=1&amp;c=2", "a.b@c.org"));
  // The words that stand for it are replaced by it.
  const MarkedText unit = Parse("Hello {name} !", v1::TEXT_FORMAT_PLAIN).units[0];
  EXPECT_EQ(WriteMarked(Translated(unit, {"!", "nom", "Bonjour"}, {2, 1, 0}), false),
            "! {name} Bonjour");
  EXPECT_EQ(WriteMarked(Translated(unit, {"Bonjour", "!"}, {0, 2}), false), "Bonjour {name} !");
  for (const char* plain : {"100% sure", "a { b", "5 %", "x@y", "{}", "a%b", "{a\nb}"}) {
    EXPECT_TRUE(Parse(plain, v1::TEXT_FORMAT_PLAIN).units[0].elements.empty()) << plain;
  }
}

TEST(MarkupTest, XmlIsBalancedOrRefused) {
  const Document document =
      Parse("<doc>a <x id=\"1\">b</x> <keep>c d</keep></doc>", v1::TEXT_FORMAT_XML, {"keep"});
  EXPECT_EQ(WriteDocument(document, document.units),
            "<doc>a <x id=\"1\">b</x> <keep>c d</keep></doc>");
  EXPECT_THAT(Fault("<a>x</b>", v1::TEXT_FORMAT_XML), HasSubstr("</b> closes <a>"));
  EXPECT_THAT(Fault("<a>x", v1::TEXT_FORMAT_XML), HasSubstr("<a> is not closed"));
  EXPECT_THAT(Fault("a < b", v1::TEXT_FORMAT_XML), HasSubstr("begins no tag"));
  std::string deep;
  for (int i = 0; i < 70; ++i) {
    deep += "<b>";
  }
  EXPECT_THAT(Fault(deep + "x", v1::TEXT_FORMAT_HTML), HasSubstr("nested deeper than 64"));
}

TEST(MarkupTest, SubtitlesAndCatalogues) {
  const Document srt = Parse(
      "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>one two\r\nthree</i> four\r\n\r\n"
      "2\r\n00:00:03,000 --> 00:00:04,000\r\nfive & six\r\n",
      v1::TEXT_FORMAT_SRT);
  EXPECT_THAT(Units(srt), ElementsAre("one two three four", "five & six"));
  EXPECT_EQ(WriteDocument(
                srt, {Translated(srt.units[0], {"A", "B", "C", "D"}, {3, 0, 1, 2}), srt.units[1]}),
            "1\r\n00:00:01,000 --> 00:00:02,000\r\nA <i>B\nC D</i>\r\n\r\n"
            "2\r\n00:00:03,000 --> 00:00:04,000\r\nfive & six\r\n");
  const std::string po =
      "msgid \"\"\nmsgstr \"\"\n\"Language: fr\\n\"\n\n#: a.c\nmsgid \"Hello %s\"\nmsgstr \"\"\n\n"
      "msgid \"done\"\nmsgstr \"fait\"\n\nmsgid \"\"\n\"a \\\"file\\\"\\n\"\nmsgid_plural \"%d "
      "files\"\n"
      "msgstr[0] \"\"\nmsgstr[1] \"\"\n";
  const Document catalogue = Parse(po, v1::TEXT_FORMAT_PO);
  EXPECT_THAT(Units(catalogue), ElementsAre("Hello %s", "a \"file\"\n", "%d files"));
  EXPECT_THAT(
      WriteDocument(catalogue, catalogue.units),
      ::testing::AllOf(HasSubstr("msgid \"Hello %s\"\nmsgstr \"Hello %s\"\n"),
                       HasSubstr("msgstr \"fait\"\n"),
                       HasSubstr("msgstr[0] \"a \\\"file\\\"\\n\"\nmsgstr[1] \"%d files\"")));
  EXPECT_THAT(Fault("msgid x\n", v1::TEXT_FORMAT_PO), HasSubstr("line 1: the string"));
}

// Tags in the order of their bytes.
std::vector<std::string> SortedTags(const std::string& html) {
  const std::regex tag("<[^>]*>");
  std::vector<std::string> tags(std::sregex_token_iterator(html.begin(), html.end(), tag),
                                std::sregex_token_iterator());
  std::sort(tags.begin(), tags.end());
  return tags;
}

bool IsBalanced(const std::string& html) {
  const std::regex tag("<(/?)([a-z]+)[^>]*>");
  std::vector<std::string> open;
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    if ((*it)[2] == "img" || (*it)[2] == "br") {
      continue;
    }
    if ((*it)[1].length() == 0) {
      open.push_back((*it)[2]);
    } else if (open.empty() || open.back() != (*it)[2]) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

// Random markup with random alignments: each tag once, and balanced.
TEST(MarkupTest, TagsOfATranslationAreThoseOfItsSource) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  int num_moved = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string html;
    int number = 0;
    const std::function<void(int)> write = [&](int depth) {
      for (int i = 1 + pick(4); i > 0; --i) {
        const char* const kInline[] = {"b", "i", "a", "span", "em"};
        const int what = pick(depth < 4 ? 8 : 4);
        if (what < 3) {
          absl::StrAppend(&html, "w", ++number, pick(3) == 0 ? ". " : " ");
        } else if (what == 3) {
          absl::StrAppend(&html, pick(2) == 0 ? "<img n='" : "<br n='", ++number, "'>");
        } else if (what < 7) {
          const char* const name = kInline[pick(5)];
          absl::StrAppend(&html, "<", name, " n='", ++number, "'>");
          write(depth + 1);
          absl::StrAppend(&html, "</", name, ">");
        } else {
          html += "<div>";
          write(depth + 1);
          html += "</div>";
        }
      }
    };
    write(0);
    const Document document = Parse(html);
    std::vector<MarkedText> translated;
    for (const MarkedText& unit : document.units) {
      const auto count = static_cast<int>(
          std::count_if(unit.text.begin(), unit.text.end(), [](char c) { return c == 'w'; }));
      std::vector<std::string> target;
      std::vector<int> order;
      for (int i = pick(count + 3); i > 0; --i) {
        target.push_back(absl::StrCat("t", i));
        order.push_back(pick(5) == 0 ? -1 : pick(count));
      }
      translated.push_back(Translated(unit, target, order));
    }
    const std::string written = WriteDocument(document, translated);
    num_moved += written != html ? 1 : 0;
    ASSERT_EQ(SortedTags(written), SortedTags(html)) << html << "\n" << written;
    ASSERT_EQ(IsBalanced(written), IsBalanced(html)) << html << "\n" << written;
    ASSERT_TRUE(IsBalanced(html)) << html;
  }
  EXPECT_GT(num_moved, 2000);
}

// Whatever the bytes, nothing is lost where nothing is translated, and no tag gets lost.
TEST(MarkupTest, BrokenMarkupKeepsItsTags) {
  std::mt19937 random(11);
  const char* const kPieces[] = {"<b>",    "</b>",    "<i a='>'>", "</i>", "<p>",   "</p>",
                                 "<code>", "</code>", "word ",     "x<y ", "&amp;", "&#x41;",
                                 "&bad;",  "<br/>",   "</",        "<!--", "-->",   "<pre>",
                                 "\n  ",   "{a}",     "<script>"};
  for (int round = 0; round < 3000; ++round) {
    std::string html;
    for (int i = std::uniform_int_distribution<int>(0, 12)(random); i >= 0; --i) {
      html += kPieces[std::uniform_int_distribution<size_t>(0, std::size(kPieces) - 1)(random)];
    }
    const Document document = Parse(html);
    const std::string written = WriteDocument(document, document.units);
    for (const char* tag : {"<b>", "</b>", "<p>", "</p>", "<code>", "<pre>", "{a}", "<br/>"}) {
      const auto count = [tag](absl::string_view text) {
        return std::vector<absl::string_view>(absl::StrSplit(text, tag)).size();
      };
      ASSERT_EQ(count(written), count(html)) << html << "\n" << written;
    }
  }
}

}  // namespace
}  // namespace beamwright::translate
