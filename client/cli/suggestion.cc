#include "client/cli/suggestion.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "ops/base/edit_distance.h"

namespace beamwright::client {
namespace {

constexpr size_t kLongestName = 100;  // longer ones are not names

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
    if (const size_t distance = EditDistance(given, name); distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace beamwright::client
