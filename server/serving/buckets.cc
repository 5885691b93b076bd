#include "server/serving/buckets.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

using Bounds = std::vector<double>;

// Seconds: from a word that nobody delays to a document behind a full queue.
const Bounds& Calls() {
  static const auto* bounds =
      new Bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                 0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    100};
  return *bounds;
}

const Bounds& Steps() {
  static const auto* bounds = new Bounds{1e-5,   2.5e-5, 5e-5, 1e-4,  2.5e-4, 5e-4, 1e-3,
                                         2.5e-3, 5e-3,   0.01, 0.025, 0.05,   0.1,  1};
  return *bounds;
}

// Rows and tokens: powers of two.
const Bounds& Counts() {
  static const auto* bounds = new Bounds{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  return *bounds;
}

}  // namespace

Buckets::Buckets()
    : bounds_{{"beamwright_request_duration_seconds", Calls()},
              {"beamwright_queue_duration_seconds", Calls()},
              {"beamwright_compute_duration_seconds", Calls()},
              {"beamwright_first_token_duration_seconds", Calls()},
              {"beamwright_encode_duration_seconds", Steps()},
              {"beamwright_step_duration_seconds", Steps()},
              {"beamwright_step_batch_rows", Counts()},
              {"beamwright_source_tokens", Counts()},
              {"beamwright_target_tokens", Counts()},
              {"beamwright_time_per_output_token_seconds", Steps()},
              {"beamwright_topk_duration_seconds", Steps()},
              {"beamwright_cancel_release_seconds", Calls()},
              {"beamwright_cancel_release_steps", {0, 1}},
              {"beamwright_model_load_seconds", {0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300}}} {}

absl::Status Buckets::Set(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const auto family = bounds_.find(parts.first);
  if (family == bounds_.end()) {
    return Invalid("'", parts.first, "' is not a histogram; there are ",
                   absl::StrJoin(bounds_, ", ", [](std::string* out, const auto& entry) {
                     out->append(entry.first);
                   }));
  }
  Bounds bounds;
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
