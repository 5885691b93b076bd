// A part is read once from front to back (PartReader). What is outside of paragraphs stays as it
// is. A paragraph becomes a small tree (Node), and the tree the events of a unit.
//
// In WordprocessingML text may stand only in a run, <w:r>FORMAT<w:t>text</w:t></w:r>, and runs do
// not nest. A unit is one run of the paragraph's main format, written around the unit, and an
// element's tags close and open runs: "</w:t></w:r><w:r>BOLD<w:t>" and back. So whatever order a
// translation has, each of its words is in a run.
#include "server/translate/office_markup.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"
#include "server/translate/entities.h"
#include "server/translate/tag.h"
#include "server/translate/unit_builder.h"

namespace beamwright::translate {
namespace {

using Kind = MarkupEvent::Kind;

// Elements of a paragraph that are nested deeper are refused.
constexpr int kDeepest = 200;

struct Node {
  std::string name;         // of an element; empty: a text, a comment or the like
  absl::string_view bytes;  // all of it
  absl::string_view open;   // the tags of an element
  absl::string_view close;
  bool is_text = false;
  std::vector<Node> children;
};

// A format is written with every element that has it, so that a short file could ask for much
// memory. Longer formats are rare; and the most bytes of the events of a part.
constexpr size_t kLongestFormat = size_t{4} << 10;
constexpr size_t kMostEventBytes = size_t{32} << 20;

// What a paragraph becomes.
struct Paragraph {
  std::string before;  // bytes around the unit
  std::vector<MarkupEvent> events;
  std::string behind;
  size_t left = kMostEventBytes;  // for the bytes of further events
  bool is_too_large = false;      // `left` does not suffice

  void Add(MarkupEvent event) {
    is_too_large = is_too_large || event.bytes.size() > left;
    if (!is_too_large) {
      left -= event.bytes.size();
      events.push_back(std::move(event));
    }
  }
};

bool HasLetters(absl::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80 ||
        absl::ascii_isalpha(static_cast<unsigned char>(c))) {
      return true;
    }
  }
  return false;
}

bool IsBlank(absl::string_view text) { return absl::StripAsciiWhitespace(text).empty(); }

std::string Decoded(absl::string_view text) {
  std::string decoded;
  std::string character;
  while (!text.empty()) {
    const size_t size = text[0] == '&' ? ReadEntity(text, character) : 0;
    decoded.append(size > 0 ? character : std::string(1, text[0]));
    text.remove_prefix(size > 0 ? size : 1);
  }
  return decoded;
}

bool BeginsRange(const Node& node) {
  return absl::EndsWith(node.name, "Start") || absl::EndsWith(node.name, "-start");
}
bool EndsRange(const Node& node) {
  return absl::EndsWith(node.name, "End") || absl::EndsWith(node.name, "-end");
}

// A paragraph of WordprocessingML.
class WordParagraph {
 public:
  // False: the paragraph stays as it is.
  bool Read(const Node& node, Paragraph& paragraph) {
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
    std::string bytes;         // of a text what is to be translated
    std::string shown;         // what the model reads in the place of bytes
    absl::string_view format;  // w:rPr of kText and kInRun
    Level level;
  };

  static std::string OpenRun(absl::string_view format) {
    return absl::StrCat("<w:r>", format, "<w:t xml:space=\"preserve\">");
  }

  bool ReadLevel(const Node& node, Level& level) {
    level.open = node.open;
    level.close = node.close;
    Item field;
    int depth = 0;  // of fields
    bool is_result = false;
    for (const Node& child : node.children) {
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
  static bool CountFields(const Node& run, int& depth, bool& is_result, std::string& shown) {
    for (const Node& child : run.children) {
      if (child.name == "w:t" && depth == 1 && is_result) {
        for (const Node& text : child.children) {
          absl::StrAppend(&shown, Decoded(text.bytes));
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

  bool ReadChild(const Node& child, Level& level) {
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
      Add(Item::What::kNode, child.bytes, "", level);
    }
    return true;
  }

  // False: its format is too long, so the paragraph stays.
  bool ReadRun(const Node& run, Level& level) {
    absl::string_view format;
    for (const Node& child : run.children) {
      if (child.name == "w:rPr") {
        format = child.bytes;
        if (format.size() > kLongestFormat) {
          return false;
        }
      } else if (child.name == "w:t") {
        ReadText(child, format, level);
      } else if (!child.name.empty() && child.name != "w:lastRenderedPageBreak") {
        Add(Item::What::kInRun, child.bytes, format, level);
        if (child.name == "w:tab" || child.name == "w:br" || child.name == "w:cr") {
          level.items.back().shown = " ";
        }
      }
    }
    return true;
  }

  void ReadText(const Node& node, absl::string_view format, Level& level) {
    std::string text;
    for (const Node& child : node.children) {
      text += child.is_text ? Decoded(child.bytes) : "";
    }
    if (!absl::StrContains(node.open, "preserve")) {
      text = std::string(absl::StripAsciiWhitespace(text));
    }
    has_letter_ = has_letter_ || HasLetters(text);
    if (!text.empty()) {
      // The format of a space is invisible, so it ends no stretch.
      const bool takes_last =
          IsBlank(text) && !level.items.empty() && level.items.back().what == Item::What::kText;
      Add(Item::What::kText, text, takes_last ? level.items.back().format : format, level);
    }
  }

  static void Add(Item::What what, absl::string_view bytes, absl::string_view format,
                  Level& level) {
    Item item;
    item.what = what;
    item.bytes = std::string(bytes);
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
  static void Emit(const Level& level, const std::string& format, Paragraph& paragraph) {
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
        AddBytes(absl::StrCat(kCloseRun, item.bytes, reopen), item.shown, paragraph);
      }
    }
  }

  static void AddBytes(std::string bytes, const std::string& shown, Paragraph& paragraph) {
    paragraph.Add({shown.empty() ? Kind::kSingle : Kind::kVerbatim, std::move(bytes), "", shown});
  }

  // Events of the items from `begin` that have its format; returns the number of the next item.
  static size_t EmitStretch(const std::vector<Item>& items, size_t begin, const std::string& format,
                            Paragraph& paragraph) {
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
        AddBytes(absl::StrCat(kCloseRun, "<w:r>", own, items[i].bytes, "</w:r>", inner),
                 items[i].shown, paragraph);
      }
    }
    if (is_element) {
      paragraph.Add({Kind::kClose, absl::StrCat(kCloseRun, OpenRun(format)), "run", ""});
    }
    return end;
  }

  std::string before_;
  std::string behind_;
  bool has_letter_ = false;
};

// A paragraph of OpenDocument, where text stands between tags as in HTML.
class OpenDocumentParagraph {
 public:
  bool Read(const Node& node, Paragraph& paragraph) {
    for (const Node& child : node.children) {
      Add(child, paragraph);
    }
    paragraph.before = absl::StrCat(node.open, before_);
    paragraph.behind = absl::StrCat(behind_, node.close);
    return has_letter_;
  }

 private:
  void Add(const Node& node, Paragraph& paragraph) {
    if (node.is_text) {
      std::string text = Decoded(node.bytes);
      has_letter_ = has_letter_ || HasLetters(text);
      AddFolded(text, paragraph);
    } else if (BeginsRange(node)) {
      absl::StrAppend(&before_, node.bytes);
    } else if (EndsRange(node)) {
      absl::StrAppend(&behind_, node.bytes);
    } else if (!node.close.empty() && (node.name == "text:span" || node.name == "text:a")) {
      paragraph.Add({Kind::kOpen, std::string(node.open), node.name, ""});
      for (const Node& child : node.children) {
        Add(child, paragraph);
      }
      paragraph.Add({Kind::kClose, std::string(node.close), node.name, ""});
    } else {
      const bool is_space =
          node.name == "text:s" || node.name == "text:tab" || node.name == "text:line-break";
      paragraph.Add({is_space ? Kind::kVerbatim : Kind::kSingle, std::string(node.bytes), "",
                     is_space ? " " : ""});
    }
  }

  static void AddFolded(absl::string_view text, Paragraph& paragraph) {
    std::string folded;
    for (const char c : text) {
      if (!IsSpace(c)) {
        folded += c;
      } else if (folded.empty() || folded.back() != ' ') {
        folded += ' ';
      }
    }
    paragraph.Add({Kind::kText, std::move(folded), "", ""});
  }

  std::string before_;
  std::string behind_;
  bool has_letter_ = false;
};

template <typename Reader>
class PartReader {
 public:
  PartReader(absl::string_view xml, std::vector<absl::string_view> paragraphs)
      : xml_(xml), paragraphs_(std::move(paragraphs)) {
    document_.escape = true;
  }

  absl::StatusOr<Document> Run() {
    size_t kept = 0;  // from here on nothing is in the document yet
    while (at_ < xml_.size()) {
      const size_t begin = at_;
      Node node;
      BW_RETURN_IF_ERROR(TakeNode(node));
      if (!IsParagraph(node)) {
        continue;
      }
      BW_RETURN_IF_ERROR(TakeContent(1, node));
      Paragraph paragraph;
      paragraph.left = left_;
      const bool is_unit = Reader().Read(node, paragraph);
      if (paragraph.is_too_large) {
        return Invalid("its paragraphs have formats of more than ", kMostEventBytes,
                       " bytes when each stretch has its own");
      }
      if (!is_unit) {
        continue;
      }
      left_ = paragraph.left;
      Keep(xml_.substr(kept, begin - kept));
      Keep(paragraph.before);
      BW_ASSIGN_OR_RETURN(MarkedText unit, BuildUnit(std::move(paragraph.events), true));
      Document::Part part;
      part.unit = static_cast<int>(document_.units.size());
      document_.parts.push_back(std::move(part));
      document_.units.push_back(std::move(unit));
      Keep(paragraph.behind);
      kept = at_;
    }
    Keep(xml_.substr(kept));
    return std::move(document_);
  }

 private:
  bool IsParagraph(const Node& node) const {
    return !is_closing_ && !is_empty_ &&
           std::find(paragraphs_.begin(), paragraphs_.end(), node.name) != paragraphs_.end();
  }

  // A text, a tag or the like; of an element its opening tag alone.
  absl::Status TakeNode(Node& node) {
    const absl::string_view rest = xml_.substr(at_);
    size_t size = 0;
    is_closing_ = is_empty_ = false;
    if (rest[0] != '<') {
      size = std::min(rest.find('<'), rest.size());
      node.is_text = true;
    } else if (absl::StartsWith(rest, "<!--") || absl::StartsWith(rest, "<?") ||
               absl::StartsWith(rest, "<![CDATA[")) {
      const absl::string_view end = rest[1] == '?' ? "?>" : rest[2] == '-' ? "-->" : "]]>";
      size = rest.find(end, 2);
      size = size == absl::string_view::npos ? rest.size() : size + end.size();
    } else {
      Tag tag = ReadTag(rest, false);
      if (tag.size == 0) {
        return Invalid("byte ", at_, ": < begins no tag");  // a document type as well
      }
      size = tag.size;
      node.name = std::move(tag.name);
      node.open = rest.substr(0, size);
      is_closing_ = tag.is_closing;
      is_empty_ = tag.is_empty;
    }
    node.bytes = rest.substr(0, size);
    at_ += size;
    return absl::OkStatus();
  }

  // The children and the closing tag of an element whose opening tag was read.
  absl::Status TakeContent(int depth, Node& node) {
    const size_t begin = at_ - node.open.size();
    if (depth > kDeepest) {
      return Invalid("byte ", at_, ": tags are nested deeper than ", kDeepest);
    }
    while (at_ < xml_.size()) {
      Node child;
      BW_RETURN_IF_ERROR(TakeNode(child));
      if (is_closing_) {
        if (child.name != node.name) {
          return Invalid("byte ", at_ - child.bytes.size(), ": </", Printable(child.name),
                         "> closes <", Printable(node.name), ">");
        }
        node.close = child.bytes;
        node.bytes = xml_.substr(begin, at_ - begin);
        return absl::OkStatus();
      }
      if (!child.name.empty() && !is_empty_) {
        BW_RETURN_IF_ERROR(TakeContent(depth + 1, child));
      }
      node.children.push_back(std::move(child));
    }
    return Invalid("the element <", Printable(node.name), "> is not closed");
  }

  void Keep(absl::string_view bytes) {
    if (document_.parts.empty() || document_.parts.back().unit >= 0) {
      document_.parts.emplace_back();
    }
    absl::StrAppend(&document_.parts.back().kept, bytes);
  }

  const absl::string_view xml_;
  const std::vector<absl::string_view> paragraphs_;  // names of elements
  size_t at_ = 0;
  bool is_closing_ = false;  // the tag that was read last
  bool is_empty_ = false;
  size_t left_ = kMostEventBytes;
  Document document_;
};

}  // namespace

absl::StatusOr<Document> ParseWordPart(absl::string_view xml) {
  return PartReader<WordParagraph>(xml, {"w:p"}).Run();
}

absl::StatusOr<Document> ParseOpenDocumentPart(absl::string_view xml) {
  return PartReader<OpenDocumentParagraph>(xml, {"text:p", "text:h"}).Run();
}

}  // namespace beamwright::translate
