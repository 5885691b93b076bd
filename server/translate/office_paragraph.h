// Paragraphs of office files: a small tree of what a paragraph has, and the events of a unit that
// it becomes. Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_PARAGRAPH_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_PARAGRAPH_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/translate/unit_builder.h"

namespace beamwright::translate {

struct OfficeNode {
  std::string name;         // of an element; empty: a text, a comment or the like
  absl::string_view bytes;  // all of it
  absl::string_view open;   // the tags of an element
  absl::string_view close;
  bool is_text = false;
  std::vector<OfficeNode> children;
};

// A format is written with every element that has it, so that a short file could ask for much
// memory. Longer formats are rare; and the most bytes of the events of a part.
inline constexpr size_t kLongestFormat = size_t{4} << 10;
inline constexpr size_t kMostEventBytes = size_t{32} << 20;

// What a paragraph becomes.
struct OfficeParagraph {
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

// The bytes that are written for a node that stays: paragraphs within it, of text boxes and notes,
// are taken out and become further units.
using ExtractNode = std::function<std::string(const OfficeNode&)>;

// False: the paragraph stays, and nothing was extracted.
bool ReadWordParagraph(const OfficeNode& node, const ExtractNode& extract,
                       OfficeParagraph& paragraph);
bool ReadOpenDocumentParagraph(const OfficeNode& node, const ExtractNode& extract,
                               OfficeParagraph& paragraph);

bool HasLetters(absl::string_view text);
// With characters in the place of entities.
std::string DecodeText(absl::string_view text);
// Of a bookmark, a comment or the like.
bool BeginsRange(const OfficeNode& node);
bool EndsRange(const OfficeNode& node);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_PARAGRAPH_H_
