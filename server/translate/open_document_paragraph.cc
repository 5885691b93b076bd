#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/translate/entities.h"
#include "server/translate/office_paragraph.h"

namespace beamwright::translate {
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
