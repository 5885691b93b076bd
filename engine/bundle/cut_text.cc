#include "engine/bundle/cut_text.h"

#include <algorithm>

#include "engine/bundle/utf8.h"

namespace beamwright::bundle {

int32_t LongestToken(absl::string_view text, size_t longest, TokenLookUp find, size_t& size) {
  for (size = std::min(longest, text.size()); size > 0; --size) {
    if (const int32_t id = find(text.substr(0, size)); id >= 0) {
      return id;
    }
  }
  return -1;
}

std::vector<int32_t> CutIntoFewest(absl::string_view text, size_t longest, TokenLookUp find) {
  constexpr size_t kMostLookUps = size_t{1} << 22;
  if (text.size() > kMostLookUps / std::max<size_t>(longest, 1)) {
    return {};
  }
  // By byte: how many tokens make up what begins there (-1: none do), and the first of them.
  struct Cut {
    int32_t count = -1;
    int32_t id = -1;
    size_t size = 0;
  };
  std::vector<Cut> cuts(text.size() + 1);
  cuts[text.size()].count = 0;
  for (size_t at = text.size(); at-- > 0;) {
    Cut& best = cuts[at];
    for (size_t size = 1; size <= std::min(longest, text.size() - at); ++size) {
      const int32_t rest = cuts[at + size].count;
      if (rest < 0 || (best.count >= 0 && rest + 1 > best.count)) {
        continue;
      }
      if (const int32_t id = find(text.substr(at, size)); id >= 0) {
        best = {rest + 1, id, size};
      }
    }
  }
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size() && cuts[at].count > 0; at += cuts[at].size) {
    ids.push_back(cuts[at].id);
  }
  return ids;
}

std::vector<int32_t> CutText(absl::string_view text, size_t longest, TokenLookUp find) {
  std::vector<int32_t> ids;
  for (absl::string_view rest = text; !rest.empty();) {
    size_t size = 0;
    const int32_t id = LongestToken(rest, longest, find, size);
    if (id < 0) {
      return CutIntoFewest(text, longest, find);
    }
    ids.push_back(id);
    rest.remove_prefix(size);
  }
  return ids;
}

}  // namespace beamwright::bundle
