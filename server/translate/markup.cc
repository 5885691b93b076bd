// A document is read once from front to back (Parsing::Run). Text and tags within a paragraph
// become events (AddDecoded, AddTag); a tag of a block ends the unit (KeepAsBlock, EndUnit), and
// BuildUnit makes a MarkedText of the events: the text that is translated, and its tags.
// Elements that stay as they are (code, scripts, translate="no") are one event, up to their end tag
// (IsKept, EndOf, AddKept). What has no letter is kept byte for byte. WriteDocument puts translated
// units back between what was kept.
//
// HTML need not be balanced and folds white space; XML must be balanced (Nest) and keeps it.
//
// Example, in HTML:
//
//   <p>Press <b>Start</b> now.</p><pre>x</pre>
//
//   kept "<p>"; unit 0: text "Press Start now.", element <b> around "Start"; kept "</p><pre>"; unit
//   1: text "x"; kept "</pre>"
#include "server/translate/markup.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/translate/office_files.h"
#include "server/translate/unit_builder.h"

namespace beamwright::translate {
namespace {

using Kind = MarkupEvent::Kind;
using Names = absl::flat_hash_set<std::string>;

// What the model reads of bytes that stay as they are.
constexpr size_t kMostShown = 48;

Names NamesOf(absl::string_view names) { return absl::StrSplit(names, ' '); }

const Names& InlineNames() {
  static const auto* const names =
      new Names(NamesOf("a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q "
                        "rp rt ruby s small "
                        "span strike strong sub sup time u img wbr input button"));
  return *names;
}
const Names& VoidNames() {
  static const auto* const names = new Names(NamesOf("img wbr input"));
  return *names;
}
const Names& VerbatimNames() {
  static const auto* const names = new Names(NamesOf("code kbd samp var tt"));
  return *names;
}
const Names& KeptNames() {
  static const auto* const names = new Names(
      NamesOf("script style textarea svg math template object canvas audio video select iframe"));
  return *names;
}

// translate="no", or the class notranslate.
bool IsMarkedAsKept(absl::string_view tag) {
  const std::string lower = absl::AsciiStrToLower(tag);
  return absl::StrContains(lower, "translate=\"no\"") ||
         absl::StrContains(lower, "translate='no'") || absl::StrContains(lower, "translate=no") ||
         absl::StrContains(lower, "notranslate");
}

class Parsing {
 public:
  Parsing(absl::string_view text, const v1::TranslateRequest& options)
      : text_(text),
        is_html_(options.format() == v1::TEXT_FORMAT_HTML),
        ignored_(options.ignored_tags().begin(), options.ignored_tags().end()),
        splitting_(options.splitting_tags().begin(), options.splitting_tags().end()) {
    document_.escape = true;
  }

  absl::StatusOr<Document> Run() {
    while (at_ < text_.size()) {
      if (text_[at_] != '<') {
        AddText();
        continue;
      }
      BW_RETURN_IF_ERROR(AddMarkup());
    }
    if (!is_html_ && !open_.empty()) {
      return Invalid("the element <", Printable(open_.back()), "> is not closed");
    }
    BW_RETURN_IF_ERROR(EndUnit());
    Keep("");
    return std::move(document_);
  }

 private:
  // Text up to the next <, in pieces between references.
  void AddText() {
    size_t end = text_.find('<', at_ + 1);
    end = end == absl::string_view::npos ? text_.size() : end;
    AddDecoded(text_.substr(at_, end - at_));
    at_ = end;
  }

  // Characters become text, references the characters that they name; a reference that is not known
  // is a single tag, which comes back as it was. Of HTML white space is one space, except within
  // <pre>. Notes whether there was a letter: a byte from 0x80 on counts as one.
  void AddDecoded(absl::string_view text) {
    std::string decoded;
    const auto add = [&] {
      if (!decoded.empty()) {
        events_.push_back({Kind::kText, std::exchange(decoded, ""), "", ""});
      }
    };
    std::string character;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c == '&') {
        if (const size_t size = ReadEntity(text.substr(at), character); size > 0) {
          decoded += character;
          has_letter_ = has_letter_ || static_cast<unsigned char>(character[0]) >= 0x80 ||
                        absl::ascii_isalpha(static_cast<unsigned char>(character[0]));
          at += size;
          continue;
        }
        // A name that is not known here stays as it is.
        const size_t end = text.substr(at, 34).find_first_of("; \n\t&<", 1);
        if (end != absl::string_view::npos && end > 1 && text[at + end] == ';') {
          add();
          events_.push_back({Kind::kSingle, std::string(text.substr(at, end + 1)), "", ""});
          at += end + 1;
          continue;
        }
      }
      has_letter_ = has_letter_ || static_cast<unsigned char>(c) >= 0x80 ||
                    absl::ascii_isalpha(static_cast<unsigned char>(c));
      if (is_html_ && pre_ == 0 && IsSpace(c)) {
        while (at + 1 < text.size() && IsSpace(text[at + 1])) {
          ++at;
        }
        decoded += ' ';
      } else {
        decoded += c;
      }
      ++at;
    }
    add();
  }

  absl::Status AddMarkup() {
    const absl::string_view rest = text_.substr(at_);
    if (absl::StartsWith(rest, "<!--")) {
      return AddSingleUntil("-->");
    }
    if (absl::StartsWith(rest, "<![CDATA[")) {
      return AddSingleUntil("]]>");
    }
    if (absl::StartsWith(rest, "<!") || absl::StartsWith(rest, "<?")) {
      const size_t end = rest.find('>');
      return KeepAsBlock(end == absl::string_view::npos ? rest.size() : end + 1);
    }
    const Tag tag = ReadTag(rest, is_html_);
    if (tag.size == 0) {
      if (!is_html_) {
        return Invalid("byte ", at_, ": < begins no tag; write it as &lt;");
      }
      events_.push_back({Kind::kText, "<", "", ""});
      ++at_;
      return absl::OkStatus();
    }
    return AddTag(tag);
  }

  // In HTML a tag is inline if its name is on one of the lists or has a hyphen (custom elements);
  // all others are blocks, which end the unit. In XML every tag is inline unless the request names
  // it as splitting.
  absl::Status AddTag(const Tag& tag) {
    const std::string bytes(text_.substr(at_, tag.size));
    const bool is_void = tag.is_empty || (is_html_ && VoidNames().contains(tag.name));
    if (!is_html_ && !is_void) {
      BW_RETURN_IF_ERROR(Nest(tag));
    }
    const bool is_split = splitting_.contains(tag.name);
    const bool is_inline =
        !is_split &&
        (!is_html_ || InlineNames().contains(tag.name) || VerbatimNames().contains(tag.name) ||
         KeptNames().contains(tag.name) || absl::StrContains(tag.name, '-'));
    if (!tag.is_closing && !is_void && IsKept(tag, bytes)) {
      if (const size_t end = EndOf(tag); end > 0) {
        return AddKept(tag, end, is_inline);
      }
    }
    if (!is_inline) {
      if (is_html_ && tag.name == "pre") {
        pre_ = std::max(0, pre_ + (tag.is_closing ? -1 : 1));
      }
      return KeepAsBlock(tag.size);
    }
    const Kind kind = is_void ? Kind::kSingle : tag.is_closing ? Kind::kClose : Kind::kOpen;
    events_.push_back({kind, bytes, tag.name, ""});
    at_ += tag.size;
    return absl::OkStatus();
  }

  // Of XML: the element that is closed must be the last that was opened.
  absl::Status Nest(const Tag& tag) {
    if (!tag.is_closing) {
      open_.push_back(tag.name);
      return absl::OkStatus();
    }
    if (open_.empty() || open_.back() != tag.name) {
      return Invalid("byte ", at_, ": </", Printable(tag.name), "> closes ",
                     open_.empty() ? "no element" : "<" + Printable(open_.back()) + ">");
    }
    open_.pop_back();
    return absl::OkStatus();
  }

  bool IsKept(const Tag& tag, absl::string_view bytes) const {
    if (ignored_.contains(tag.name)) {
      return true;
    }
    // Names that are not HTML's are not searched for: each would be, through all of the text.
    return is_html_ &&
           (VerbatimNames().contains(tag.name) || KeptNames().contains(tag.name) ||
            (IsMarkedAsKept(bytes) && !absl::StrContains(tag.name, '-') && tag.name.size() <= 10));
  }

  // The byte behind the end tag of the element that begins here; 0: it has none.
  //
  // Elements of one name nest, but for scripts, styles and text areas, whose content has no tags. A
  // name whose end was searched for in vain is noted, so that many such tags do not each search the
  // rest of the text.
  size_t EndOf(const Tag& tag) {
    if (unclosed_.contains(tag.name) || unclosed_.size() > kMaxNested) {
      return 0;
    }
    const bool nests =
        !is_html_ || (tag.name != "script" && tag.name != "style" && tag.name != "textarea");
    size_t depth = 1;
    for (size_t at = at_ + tag.size; at < text_.size();) {
      at = text_.find('<', at);
      if (at == absl::string_view::npos) {
        break;
      }
      const absl::string_view rest = text_.substr(at);
      const absl::string_view name = rest.substr(rest.substr(1, 1) == "/" ? 2 : 1, tag.name.size());
      if (is_html_ ? !absl::EqualsIgnoreCase(name, tag.name) : name != tag.name) {
        ++at;
        continue;
      }
      const Tag other = ReadTag(rest, is_html_);
      if (other.size > 0 && other.name == tag.name && !other.is_empty) {
        depth += other.is_closing ? -1 : nests ? 1 : 0;
      }
      at += std::max<size_t>(1, other.size);
      if (depth == 0) {
        return at;
      }
    }
    unclosed_.insert(tag.name);
    return 0;
  }

  // An element whose content stays as it is.
  absl::Status AddKept(const Tag& tag, size_t end, bool is_inline) {
    if (!is_html_) {
      open_.pop_back();
    }
    if (!is_inline) {
      return KeepAsBlock(end - at_);
    }
    MarkupEvent event{Kind::kSingle, std::string(text_.substr(at_, end - at_)), "", ""};
    if (!is_html_ || !KeptNames().contains(tag.name)) {
      event.shown = ShownOf(text_.substr(at_ + tag.size, end - at_ - tag.size));
      event.kind = event.shown.empty() ? Kind::kSingle : Kind::kVerbatim;
    }
    events_.push_back(std::move(event));
    at_ = end;
    return absl::OkStatus();
  }

  // The beginning of the text in some bytes of markup.
  static std::string ShownOf(absl::string_view bytes) {
    std::string shown;
    bool is_tag = false;
    for (const char c : bytes) {
      is_tag = is_tag || c == '<';
      const bool begins_character = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
      if (shown.size() >= kMostShown && begins_character) {
        break;
      }
      if (!is_tag) {
        shown += c;
      }
      is_tag = is_tag && c != '>';
    }
    return std::string(absl::StripAsciiWhitespace(shown));
  }

  absl::Status AddSingleUntil(absl::string_view mark) {
    const size_t found = text_.find(mark, at_);
    const size_t end = found == absl::string_view::npos ? text_.size() : found + mark.size();
    events_.push_back({Kind::kSingle, std::string(text_.substr(at_, end - at_)), "", ""});
    at_ = end;
    return absl::OkStatus();
  }

  absl::Status KeepAsBlock(size_t size) {
    BW_RETURN_IF_ERROR(EndUnit());
    Keep(text_.substr(at_, size));
    at_ += size;
    unit_begin_ = at_;
    return absl::OkStatus();
  }

  // What came since the last block.
  absl::Status EndUnit() {
    const absl::string_view bytes = text_.substr(unit_begin_, at_ - unit_begin_);
    std::vector<MarkupEvent> events = std::exchange(events_, {});
    unit_begin_ = at_;
    if (!std::exchange(has_letter_, false)) {
      Keep(bytes);
      return absl::OkStatus();
    }
    // White space around the unit stays as it is.
    const size_t first = bytes.find_first_not_of(" \t\n\r\f\v");
    const size_t last = bytes.find_last_not_of(" \t\n\r\f\v") + 1;
    if (events.front().kind == Kind::kText) {
      events.front().bytes = std::string(absl::StripLeadingAsciiWhitespace(events.front().bytes));
    }
    if (events.back().kind == Kind::kText) {
      events.back().bytes = std::string(absl::StripTrailingAsciiWhitespace(events.back().bytes));
    }
    Keep(bytes.substr(0, first));
    BW_ASSIGN_OR_RETURN(MarkedText unit, BuildUnit(std::move(events), document_.escape));
    Document::Part part;
    part.unit = static_cast<int>(document_.units.size());
    document_.parts.push_back(std::move(part));
    document_.units.push_back(std::move(unit));
    Keep(bytes.substr(last));
    return absl::OkStatus();
  }

  void Keep(absl::string_view bytes) {
    if (document_.parts.empty() || document_.parts.back().unit >= 0) {
      document_.parts.emplace_back();
    }
    absl::StrAppend(&document_.parts.back().kept, bytes);
  }

  const absl::string_view text_;
  const bool is_html_;
  const Names ignored_;
  const Names splitting_;
  size_t at_ = 0;
  size_t unit_begin_ = 0;
  int pre_ = 0;  // open elements that keep white space
  bool has_letter_ = false;
  std::vector<MarkupEvent> events_;  // of the unit
  std::vector<std::string> open_;    // elements of XML
  Names unclosed_;                   // names without an end tag from here on
  Document document_;
};

absl::StatusOr<Document> ParsePlain(absl::string_view text) {
  Document document;
  BW_ASSIGN_OR_RETURN(MarkedText unit,
                      BuildUnit({{Kind::kText, std::string(text), "", ""}}, false));
  document.units.push_back(std::move(unit));
  Document::Part part;
  part.unit = 0;
  document.parts.push_back(std::move(part));
  return document;
}

// White space of `text` nearest to even shares becomes line ends.
void SpreadOverLines(int lines, std::string& text) {
  for (int line = 1; line < lines; ++line) {
    const size_t middle = text.size() * static_cast<size_t>(line) / static_cast<size_t>(lines);
    const size_t before = text.rfind(' ', middle);
    const size_t behind = text.find(' ', middle);
    const bool takes_before = before != std::string::npos &&
                              (behind == std::string::npos || middle - before <= behind - middle);
    const size_t at = takes_before ? before : behind;
    if (at != std::string::npos) {
      text[at] = '\n';
    }
  }
}

}  // namespace

absl::StatusOr<Document> ParseDocument(absl::string_view text,
                                       const v1::TranslateRequest& options) {
  switch (options.format()) {
    case v1::TEXT_FORMAT_HTML:
    case v1::TEXT_FORMAT_XML:
      return Parsing(text, options).Run();
    case v1::TEXT_FORMAT_SRT:
    case v1::TEXT_FORMAT_VTT:
      return ParseSubtitles(text, options.format() == v1::TEXT_FORMAT_VTT);
    case v1::TEXT_FORMAT_PO:
      return ParsePo(text);
    case v1::TEXT_FORMAT_DOCX:
      return ParseWordPart(text);
    case v1::TEXT_FORMAT_ODT:
      return ParseOpenDocumentPart(text);
    default:
      return ParsePlain(text);
  }
}

namespace {

std::string WriteParts(const Document& document, const std::vector<Document::Part>& parts,
                       absl::Span<const MarkedText> units) {
  std::string written;
  for (const Document::Part& part : parts) {
    if (part.unit < 0) {
      written += part.kept;
      continue;
    }
    const MarkedText& unit = units[static_cast<size_t>(part.unit)];
    if (part.is_quoted) {
      written += QuotedForPo(WriteMarked(unit, document.escape));
    } else if (part.lines > 1) {
      MarkedText spread = unit;
      SpreadOverLines(part.lines, spread.text);
      written += WriteMarked(spread, document.escape);
    } else {
      written += WriteMarked(unit, document.escape);
    }
  }
  return written;
}

// Writes `text` with inserts for their marks, each once, whatever a model may have written.
void WriteWithInserts(const Document& document, absl::Span<const MarkedText> units,
                      absl::string_view text, std::vector<bool>& is_written, std::string& written) {
  while (!text.empty()) {
    const size_t begin = std::min(text.find(kInsertBegin), text.size());
    absl::StrAppend(&written, text.substr(0, begin));
    text.remove_prefix(begin);
    const size_t end = text.find(kInsertEnd);
    size_t number = 0;
    if (end != absl::string_view::npos && absl::SimpleAtoi(text.substr(1, end - 1), &number) &&
        number < is_written.size() && !is_written[number]) {
      is_written[number] = true;
      WriteWithInserts(document, units, WriteParts(document, document.inserts[number], units),
                       is_written, written);
      text.remove_prefix(end + 1);
    } else if (!text.empty()) {
      written += text[0];
      text.remove_prefix(1);
    }
  }
}

}  // namespace

std::string InsertMark(size_t number) {
  return absl::StrCat(std::string(1, kInsertBegin), number, std::string(1, kInsertEnd));
}

std::string WriteDocument(const Document& document, absl::Span<const MarkedText> units) {
  std::string text = WriteParts(document, document.parts, units);
  if (document.inserts.empty()) {
    return text;
  }
  std::string written;
  std::vector<bool> is_written(document.inserts.size(), false);
  WriteWithInserts(document, units, text, is_written, written);
  return written;
}

}  // namespace beamwright::translate
