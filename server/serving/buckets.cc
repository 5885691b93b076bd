#include "server/serving/buckets.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "server/serving/metric_families.h"

namespace beamwright::serving {
Buckets::Buckets() {
  for (const MeasureFamily& family : MeasureFamilies()) {
    bounds_[family.name] = family.bounds;
  }
}

absl::Status Buckets::Set(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const auto family = bounds_.find(parts.first);
  if (family == bounds_.end()) {
    return Invalid("'", parts.first, "' is not a histogram; there are ",
                   absl::StrJoin(bounds_, ", ", [](std::string* out, const auto& entry) {
                     out->append(entry.first);
                   }));
  }
  std::vector<double> bounds;
  for (const absl::string_view word : absl::StrSplit(parts.second, ',')) {
    double bound = 0;
    if (!absl::SimpleAtod(word, &bound) || !std::isfinite(bound)) {
      return Invalid(parts.first, ": '", word, "' is not a finite number");
    }
    if (!bounds.empty() && bound <= bounds.back()) {
      return Invalid(parts.first, ": ", word, " does not come after ", bounds.back(),
                     "; bounds ascend");
    }
    bounds.push_back(bound);
  }
  if (bounds.size() > kMaxBounds) {
    return Invalid(parts.first, ": ", bounds.size(), " bounds; at most ", kMaxBounds);
  }
  family->second = std::move(bounds);
  return absl::OkStatus();
}

}  // namespace beamwright::serving
