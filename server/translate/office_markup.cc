// A part is read once from front to back (PartReader). What is outside of paragraphs stays as it
// is. A paragraph becomes a small tree (OfficeNode), and the tree the events of a unit
// (office_paragraph.h). Paragraphs within it, of a text box or a note, are inserts of the document.
#include "server/translate/office_markup.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/translate/entities.h"
#include "server/translate/office_paragraph.h"
#include "server/translate/tag.h"

namespace beamwright::translate {
namespace {

// Elements of a paragraph that are nested deeper are refused.
constexpr int kDeepest = 200;

class PartReader {
 public:
  // read: ReadWordParagraph or the like; paragraphs: names of its elements.
  PartReader(absl::string_view xml,
             bool (*read)(const OfficeNode&, const ExtractNode&, OfficeParagraph&),
             std::vector<absl::string_view> paragraphs)
      : xml_(xml),
        read_(read),
        paragraphs_(std::move(paragraphs)),
        may_insert_(!absl::StrContains(xml, kInsertBegin)) {
    document_.escape = true;
  }

  absl::StatusOr<Document> Run() {
    size_t kept = 0;  // from here on nothing is in the document yet
    while (at_ < xml_.size()) {
      const size_t begin = at_;
      OfficeNode node;
      BW_RETURN_IF_ERROR(TakeNode(node));
      if (!IsParagraph(node.name) || is_closing_ || is_empty_) {
        continue;
      }
      BW_RETURN_IF_ERROR(TakeContent(1, node));
      Keep(xml_.substr(kept, begin - kept), document_.parts);
      AddParagraph(node, document_.parts);
      BW_RETURN_IF_ERROR(status_);
      kept = at_;
    }
    Keep(xml_.substr(kept), document_.parts);
    return std::move(document_);
  }

 private:
  using Parts = std::vector<Document::Part>;

  bool IsParagraph(const std::string& name) const {
    return std::find(paragraphs_.begin(), paragraphs_.end(), name) != paragraphs_.end();
  }

  // The paragraph, as a unit if it has letters. Sets status_.
  void AddParagraph(const OfficeNode& node, Parts& parts) {
    const ExtractNode extract = [this](const OfficeNode& child) { return Extract(child); };
    OfficeParagraph paragraph;
    const size_t start = left_;  // paragraphs within this one take their parts of it
    paragraph.left = start;
    if (!read_(node, extract, paragraph)) {
      Keep(absl::StrCat(node.open, ExtractChildren(node), node.close), parts);
      return;
    }
    if (paragraph.is_too_large) {
      status_.Update(Invalid("its paragraphs have formats of more than ", kMostEventBytes,
                             " bytes when each stretch has its own"));
      return;
    }
    left_ -= std::min(left_, start - paragraph.left);
    Keep(paragraph.before, parts);
    absl::StatusOr<MarkedText> unit = BuildUnit(std::move(paragraph.events), true);
    status_.Update(unit.status());
    if (!status_.ok()) {
      return;
    }
    Document::Part part;
    part.unit = static_cast<int>(document_.units.size());
    parts.push_back(std::move(part));
    document_.units.push_back(*std::move(unit));
    Keep(paragraph.behind, parts);
  }

  std::string Extract(const OfficeNode& node) {
    if (!may_insert_ || node.children.empty()) {
      return std::string(node.bytes);
    }
    if (!IsParagraph(node.name)) {
      return absl::StrCat(node.open, ExtractChildren(node), node.close);
    }
    Parts parts;
    AddParagraph(node, parts);
    document_.inserts.push_back(std::move(parts));
    return InsertMark(document_.inserts.size() - 1);
  }

  std::string ExtractChildren(const OfficeNode& node) {
    std::string bytes;
    for (const OfficeNode& child : node.children) {
      bytes += Extract(child);
    }
    return bytes;
  }

  // A text, a tag or the like; of an element its opening tag alone.
  absl::Status TakeNode(OfficeNode& node) {
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
  absl::Status TakeContent(int depth, OfficeNode& node) {
    const size_t begin = at_ - node.open.size();
    if (depth > kDeepest) {
      return Invalid("byte ", at_, ": tags are nested deeper than ", kDeepest);
    }
    while (at_ < xml_.size()) {
      OfficeNode child;
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

  static void Keep(absl::string_view bytes, Parts& parts) {
    if (parts.empty() || parts.back().unit >= 0) {
      parts.emplace_back();
    }
    absl::StrAppend(&parts.back().kept, bytes);
  }

  const absl::string_view xml_;
  bool (*const read_)(const OfficeNode&, const ExtractNode&, OfficeParagraph&);
  const std::vector<absl::string_view> paragraphs_;
  const bool may_insert_;  // no XML has the mark's characters
  absl::Status status_;
  size_t at_ = 0;
  bool is_closing_ = false;  // the tag that was read last
  bool is_empty_ = false;
  size_t left_ = kMostEventBytes;
  Document document_;
};

}  // namespace

bool HasLetters(absl::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80 ||
        absl::ascii_isalpha(static_cast<unsigned char>(c))) {
      return true;
    }
  }
  return false;
}

std::string DecodeText(absl::string_view text) {
  std::string decoded;
  std::string character;
  while (!text.empty()) {
    const size_t size = text[0] == '&' ? ReadEntity(text, character) : 0;
    decoded.append(size > 0 ? character : std::string(1, text[0]));
    text.remove_prefix(size > 0 ? size : 1);
  }
  return decoded;
}

bool BeginsRange(const OfficeNode& node) {
  return absl::EndsWith(node.name, "Start") || absl::EndsWith(node.name, "-start");
}

bool EndsRange(const OfficeNode& node) {
  return absl::EndsWith(node.name, "End") || absl::EndsWith(node.name, "-end");
}

absl::StatusOr<Document> ParseWordPart(absl::string_view xml) {
  return PartReader(xml, &ReadWordParagraph, {"w:p"}).Run();
}

absl::StatusOr<Document> ParseOpenDocumentPart(absl::string_view xml) {
  return PartReader(xml, &ReadOpenDocumentParagraph, {"text:p", "text:h"}).Run();
}

}  // namespace beamwright::translate
