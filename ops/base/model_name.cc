#include "ops/base/model_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "ops/base/status.h"

namespace beamwright {
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
