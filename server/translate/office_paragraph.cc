// A paragraph of an office file as a unit: of WordprocessingML, whose runs hold the text, and of
// OpenDocument.
//
// An example, with w:rPr of bold text shortened to B:
//
//   <w:p><w:r><w:t>Press </w:t></w:r><w:r>B<w:t>Start</w:t></w:r></w:p>
//
//   before    <w:p><w:r><w:t xml:space="preserve">
//   unit      Press Start, with an element around Start that is written as
//             </w:t></w:r><w:r>B<w:t xml:space="preserve"> and </w:t></w:r><w:r><w:t
//             xml:space="preserve">
//   behind    </w:t></w:r></w:p>
#include "server/translate/office_paragraph.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/translate/unit_builder.h"

namespace beamwright::translate {

// In WordprocessingML text may stand only in a run, <w:r>FORMAT<w:t>text</w:t></w:r>, and runs do
// not nest. A unit is one run of the paragraph's main format, written around the unit, and an
// element's tags close and open runs: "</w:t></w:r><w:r>BOLD<w:t>" and back. So whatever order a
// translation has, each of its words is in a run.

namespace {

using Kind = MarkupEvent::Kind;

bool IsBlank(absl::string_view text) { return absl::StripAsciiWhitespace(text).empty(); }

// A paragraph of WordprocessingML.
class WordParagraph {
 public:
  explicit WordParagraph(const ExtractNode& extract) : extract_(extract) {}

  bool Read(const OfficeNode& node, OfficeParagraph& paragraph) {
    Level level;
    if (!ReadLevel(node, level) || !has_letter_) {
      return false;
    }
    const std::string format = MainFormat(level);
    Emit(level, format, paragraph);
    paragraph.before = absl::StrCat(node.open, before_, OpenRun(format));
    paragraph.behind = absl::StrCat(kCloseRun, behind_, node.close);
    return true;
  }

 private:
  static constexpr absl::string_view kCloseRun = "</w:t></w:r>";

  struct Item;
  // The paragraph, or a link or the like in it.
  struct Level {
    absl::string_view open;
    absl::string_view close;
    std::vector<Item> items;
  };
  struct Item {
    enum class What { kText, kInRun, kNode, kField, kLevel };
    What what = What::kText;
    std::string bytes;                 // of a text what is to be translated, of a field all of it
    const OfficeNode* node = nullptr;  // of kInRun and kNode
    std::string shown;                 // what the model reads in the place of bytes
    absl::string_view format;          // w:rPr of kText and kInRun
    Level level;
  };

  static std::string OpenRun(absl::string_view format) {
    return absl::StrCat("<w:r>", format, "<w:t xml:space=\"preserve\">");
  }

  // Children become items: stretches of text, what a run holds besides text, links and other
  // levels, and whole fields. False where fields are not balanced, and the paragraph stays as it
  // is.
  bool ReadLevel(const OfficeNode& node, Level& level) {
    level.open = node.open;
    level.close = node.close;
    Item field;
    int depth = 0;  // of fields
    bool is_result = false;
    for (const OfficeNode& child : node.children) {
      const int before = depth;
      if (child.name == "w:r" && !CountFields(child, depth, is_result, field.shown)) {
        return false;
      }
      if (before > 0 || depth > 0) {
        absl::StrAppend(&field.bytes, child.bytes);
        if (depth == 0) {
          field.what = Item::What::kField;
          level.items.push_back(std::exchange(field, {}));
        }
      } else if (!ReadChild(child, level)) {
        return false;
      }
    }
    return depth == 0;
  }

  // What a run has of a field; `shown` gets the text of its result.
  //
  // A field is a stretch of runs: begin, its instruction, separate, its result, end. Fields nest;
  // only the result of the outermost is shown to the model.
  static bool CountFields(const OfficeNode& run, int& depth, bool& is_result, std::string& shown) {
    for (const OfficeNode& child : run.children) {
      if (child.name == "w:t" && depth == 1 && is_result) {
        for (const OfficeNode& text : child.children) {
          absl::StrAppend(&shown, DecodeText(text.bytes));
        }
      }
      if (child.name != "w:fldChar") {
        continue;
      }
      if (absl::StrContains(child.open, "\"begin\"")) {
        is_result = false;
        ++depth;
      } else if (absl::StrContains(child.open, "\"separate\"")) {
        is_result = depth == 1;
      } else {
        --depth;
      }
      if (depth < 0) {
        return false;
      }
    }
    return true;
  }

  bool ReadChild(const OfficeNode& child, Level& level) {
    if (child.name.empty()) {
      return !child.is_text || IsBlank(child.bytes);
    }
    if (child.name == "w:pPr" || BeginsRange(child)) {
      absl::StrAppend(&before_, child.bytes);
    } else if (EndsRange(child)) {
      absl::StrAppend(&behind_, child.bytes);
    } else if (child.name == "w:r") {
      return ReadRun(child, level);
    } else if (!child.close.empty() &&
               (child.name == "w:hyperlink" || child.name == "w:ins" || child.name == "w:moveTo")) {
      Item item;
      item.what = Item::What::kLevel;
      if (!ReadLevel(child, item.level)) {
        return false;
      }
      level.items.push_back(std::move(item));
    } else if (child.name != "w:proofErr") {
      AddNode(Item::What::kNode, child, "", level);
    }
    return true;
  }

  // False: its format is too long, so the paragraph stays.
  bool ReadRun(const OfficeNode& run, Level& level) {
    absl::string_view format;
    for (const OfficeNode& child : run.children) {
      if (child.name == "w:rPr") {
        format = child.bytes;
        if (format.size() > kLongestFormat) {
          return false;
        }
      } else if (child.name == "w:t") {
        ReadText(child, format, level);
      } else if (!child.name.empty() && child.name != "w:lastRenderedPageBreak") {
        AddNode(Item::What::kInRun, child, format, level);
        if (child.name == "w:tab" || child.name == "w:br" || child.name == "w:cr") {
          level.items.back().shown.assign(1, ' ');
        }
      }
    }
    return true;
  }

  void ReadText(const OfficeNode& node, absl::string_view format, Level& level) {
    std::string text;
    for (const OfficeNode& child : node.children) {
      text += child.is_text ? DecodeText(child.bytes) : "";
    }
    if (!absl::StrContains(node.open, "preserve")) {
      text = std::string(absl::StripAsciiWhitespace(text));
    }
    has_letter_ = has_letter_ || HasLetters(text);
    if (!text.empty()) {
      // The format of a space is invisible, so it ends no stretch.
      const bool takes_last =
          IsBlank(text) && !level.items.empty() && level.items.back().what == Item::What::kText;
      Item item;
      item.bytes = std::move(text);
      item.format = takes_last ? level.items.back().format : format;
      level.items.push_back(std::move(item));
    }
  }

  static void AddNode(Item::What what, const OfficeNode& node, absl::string_view format,
                      Level& level) {
    Item item;
    item.what = what;
    item.node = &node;
    item.format = format;
    level.items.push_back(std::move(item));
  }

  // The format of most of its text; of a level without text that of the first run.
  static std::string MainFormat(const Level& level) {
    std::map<absl::string_view, size_t> sizes;
    absl::string_view main;
    for (const Item& item : level.items) {
      if (item.what == Item::What::kText) {
        size_t& size = sizes[item.format];
        size += item.bytes.size();
        main = sizes.size() == 1 || size > sizes[main] ? item.format : main;
      }
    }
    return std::string(main);
  }

  static bool IsOfRun(const Item& item) {
    return item.what == Item::What::kText || item.what == Item::What::kInRun;
  }

  // Events of the items, within a run of `format`.
  void Emit(const Level& level, const std::string& format, OfficeParagraph& paragraph) {
    const std::string reopen = OpenRun(format);
    for (size_t i = 0; i < level.items.size() && !paragraph.is_too_large;) {
      const Item& item = level.items[i];
      if (IsOfRun(item)) {
        i = EmitStretch(level.items, i, format, paragraph);
        continue;
      }
      ++i;
      if (item.what == Item::What::kLevel) {
        const std::string inner = MainFormat(item.level);
        paragraph.Add(
            {Kind::kOpen, absl::StrCat(kCloseRun, item.level.open, OpenRun(inner)), "level", ""});
        Emit(item.level, inner, paragraph);
        paragraph.Add(
            {Kind::kClose, absl::StrCat(kCloseRun, item.level.close, reopen), "level", ""});
      } else {
        AddBytes(absl::StrCat(kCloseRun, BytesOf(item), reopen), item.shown, paragraph);
      }
    }
  }

  std::string BytesOf(const Item& item) const {
    return item.node == nullptr ? item.bytes : extract_(*item.node);
  }

  static void AddBytes(std::string bytes, const std::string& shown, OfficeParagraph& paragraph) {
    paragraph.Add({shown.empty() ? Kind::kSingle : Kind::kVerbatim, std::move(bytes), "", shown});
  }

  // Events of the items from `begin` that have its format; returns the number of the next item.
  size_t EmitStretch(const std::vector<Item>& items, size_t begin, const std::string& format,
                     OfficeParagraph& paragraph) {
    const absl::string_view own = items[begin].format;
    size_t end = begin;
    bool has_text = false;
    for (; end < items.size() && IsOfRun(items[end]) && items[end].format == own; ++end) {
      has_text = has_text || items[end].what == Item::What::kText;
    }
    const bool is_element = own != format && has_text;
    const std::string inner = OpenRun(is_element ? own : absl::string_view(format));
    if (is_element) {
      paragraph.Add({Kind::kOpen, absl::StrCat(kCloseRun, inner), "run", ""});
    }
    for (size_t i = begin; i < end && !paragraph.is_too_large; ++i) {
      if (items[i].what == Item::What::kText) {
        paragraph.Add({Kind::kText, items[i].bytes, "", ""});
      } else {
        AddBytes(absl::StrCat(kCloseRun, "<w:r>", own, BytesOf(items[i]), "</w:r>", inner),
                 items[i].shown, paragraph);
      }
    }
    if (is_element) {
      paragraph.Add({Kind::kClose, absl::StrCat(kCloseRun, OpenRun(format)), "run", ""});
    }
    return end;
  }

  const ExtractNode& extract_;
  std::string before_;
  std::string behind_;
  bool has_letter_ = false;
};

}  // namespace

bool ReadWordParagraph(const OfficeNode& node, const ExtractNode& extract,
                       OfficeParagraph& paragraph) {
  return WordParagraph(extract).Read(node, paragraph);
}

namespace {

// A paragraph of OpenDocument, where text stands between tags as in HTML.
class OpenDocumentParagraph {
 public:
  explicit OpenDocumentParagraph(const ExtractNode& extract) : extract_(extract) {}

  bool Read(const OfficeNode& node, OfficeParagraph& paragraph) {
    if (!HasOwnLetters(node)) {
      return false;
    }
    for (const OfficeNode& child : node.children) {
      Add(child, paragraph);
    }
    paragraph.before = absl::StrCat(node.open, before_);
    paragraph.behind = absl::StrCat(behind_, node.close);
    return true;
  }

 private:
  static bool IsSpan(const OfficeNode& node) {
    return !node.close.empty() && (node.name == "text:span" || node.name == "text:a");
  }

  static bool HasOwnLetters(const OfficeNode& node) {
    return std::any_of(node.children.begin(), node.children.end(), [](const OfficeNode& child) {
      return child.is_text ? HasLetters(DecodeText(child.bytes))
                           : IsSpan(child) && HasOwnLetters(child);
    });
  }

  void Add(const OfficeNode& node, OfficeParagraph& paragraph) {
    if (node.is_text) {
      AddFolded(DecodeText(node.bytes), paragraph);
    } else if (BeginsRange(node)) {
      absl::StrAppend(&before_, node.bytes);
    } else if (EndsRange(node)) {
      absl::StrAppend(&behind_, node.bytes);
    } else if (IsSpan(node)) {
      paragraph.Add({MarkupEvent::Kind::kOpen, std::string(node.open), node.name, ""});
      for (const OfficeNode& child : node.children) {
        Add(child, paragraph);
      }
      paragraph.Add({MarkupEvent::Kind::kClose, std::string(node.close), node.name, ""});
    } else {
      const bool is_space =
          node.name == "text:s" || node.name == "text:tab" || node.name == "text:line-break";
      paragraph.Add({is_space ? MarkupEvent::Kind::kVerbatim : MarkupEvent::Kind::kSingle,
                     extract_(node), "", is_space ? " " : ""});
    }
  }

  static void AddFolded(absl::string_view text, OfficeParagraph& paragraph) {
    std::string folded;
    for (const char c : text) {
      if (!IsSpace(c)) {
        folded += c;
      } else if (folded.empty() || folded.back() != ' ') {
        folded += ' ';
      }
    }
    paragraph.Add({MarkupEvent::Kind::kText, std::move(folded), "", ""});
  }

  const ExtractNode& extract_;
  std::string before_;
  std::string behind_;
};

}  // namespace

bool ReadOpenDocumentParagraph(const OfficeNode& node, const ExtractNode& extract,
                               OfficeParagraph& paragraph) {
  return OpenDocumentParagraph(extract).Read(node, paragraph);
}

}  // namespace beamwright::translate
