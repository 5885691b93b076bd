// The requests that a bundle brings (docs/bundle.md, 'Golden requests' and 'Warm-up').
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_GOLDEN_FILE_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_GOLDEN_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace beamwright::bundle {

// Content of the bundle's golden.jsonl; empty if missing. Errors as LoadBundle's.
absl::StatusOr<std::string> ReadGolden(const std::string& folder,
                                       absl::Span<const std::string> allow_links = {});
// The same of its warmup.jsonl.
absl::StatusOr<std::string> ReadWarmUp(const std::string& folder,
                                       absl::Span<const std::string> allow_links = {});

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_GOLDEN_FILE_H_
