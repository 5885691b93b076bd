// SplitPattern: the regular expressions by which tokenizers cut text into words before they look
// for tokens. A subset of Oniguruma's syntax, without a library: alternatives of characters,
// classes
// (\p{L}, \p{M}, \p{N}, \s, \S, sets) with greedy counts, a class that must not follow, and groups
// of alternatives, which may ignore the case of ASCII. GPT-2's, Llama 3's and Qwen's patterns are
// made of these. Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_SPLIT_PATTERN_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_SPLIT_PATTERN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::bundle {

// Thread-safe after Parse.
class SplitPattern {
 public:
  // InvalidArgument naming the place: what is not in the subset.
  static absl::StatusOr<SplitPattern> Parse(absl::string_view pattern);

  // `text` (UTF-8) as the matches and what lies between them, in order; nothing is left out. In a
  // time linear in the text: where a pattern takes longer, the rest is one piece.
  std::vector<absl::string_view> Split(absl::string_view text) const;

 private:
  struct Class {
    bool negated = false;
    uint32_t classes = 0;                               // bits of kLetter and so on
    std::vector<std::pair<char32_t, char32_t>> ranges;  // both ends included
    bool ignores_case = false;
    std::vector<Class> parts;  // \S and the like within a set

    bool Has(char32_t character) const;
  };
  struct Part {
    Class of;
    int least = 1;
    int most = 1;
    bool must_not_follow = false;
  };
  using Alternative = std::vector<Part>;
  class Parser;

  // The number of characters at `at` that the parts from `part` on match; -1: they do not match.
  static int Match(const Alternative& alternative, size_t part,
                   const std::vector<char32_t>& characters, size_t at, int64_t& budget);

  std::vector<Alternative> alternatives_;
};

// Whether the character is a mark (\p{M}).
bool IsMark(char32_t character);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_SPLIT_PATTERN_H_
