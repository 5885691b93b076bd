// Names that people type: the nearest known name for a message ("did you mean ..."), by the number
// of letters that must be changed (EditDistance), and the rule for names of models, which are
// folders and parts of URLs.
#include "ops/base/names.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"

namespace beamwright {

// A row of the table at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
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

namespace {

constexpr size_t kLongestName = 100;  // longer ones are not names

}  // namespace

// A name that is the only one to begin with what was typed, else the nearest, if no more than a
// third of the letters differ.
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

namespace {

constexpr size_t kMaxNameLength = 128;

}  // namespace

absl::Status CheckModelName(const std::string& name) {
  bool good = !name.empty() && name.size() <= kMaxNameLength && name[0] != '.';
  for (const char c : name) {
    good = good &&
           (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-');
  }
  return good ? absl::OkStatus()
              : Invalid("'", absl::CEscape(name.substr(0, kMaxNameLength)),
                        "' cannot name a model; allowed are 1 to ", kMaxNameLength,
                        " letters, digits, '.', '_' and '-', not starting with a dot");
}

}  // namespace beamwright
