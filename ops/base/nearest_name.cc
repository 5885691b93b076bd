#include "ops/base/nearest_name.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/base/edit_distance.h"

namespace beamwright {
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

std::string FlagSuggestions(absl::Span<const std::string> given,
                            absl::Span<const std::string> flags) {
  std::vector<std::string> meant;
  for (const std::string& argument : given) {
    absl::string_view flag = argument;
    if (absl::ConsumePrefix(&flag, "--")) {
      const std::string name = NearestName(flag.substr(0, flag.find('=')), flags);
      if (!name.empty()) {
        meant.push_back(absl::StrCat("--", name));
      }
    }
  }
  return meant.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(meant, ", "), "?");
}

}  // namespace beamwright
