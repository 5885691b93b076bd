#include "client/cli/suggestion.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"

namespace beamwright::client {
namespace {

constexpr size_t kLongestName = 100;  // longer ones are not names

// Levenshtein's distance, a row at a time.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(absl::string_view given, absl::Span<const std::string> names) {
  if (given.size() > kLongestName) {
    return "";
  }
  const auto begins = [&](const std::string& name) { return absl::StartsWith(name, given); };
  if (std::count_if(names.begin(), names.end(), begins) == 1) {
    return *std::find_if(names.begin(), names.end(), begins);
  }
  std::string nearest;
  size_t least = given.size() / 3 + 1;
  for (const std::string& name : names) {
    if (const size_t distance = Distance(given, name); distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace beamwright::client
