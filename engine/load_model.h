// From a bundle's folder to a model that was seen to decode. The server, the library for decoding
// in process and `beamwright-graph check` load models by these, so that all refuse the same ones.
#ifndef BEAMWRIGHT_ENGINE_LOAD_MODEL_H_
#define BEAMWRIGHT_ENGINE_LOAD_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/decode_model.h"

namespace beamwright::engine {

// Reads and compiles the bundle, one weight after the other, so that files and packed weights are
// not in memory together. allow_links as for LoadBundle. What importers only warn of goes to
// `warnings`, if it is not null: "<graph>: <warning>". Errors are LoadBundle's and
// DecodeModel::Compile's; both begin with "bundle '<folder>': ".
absl::StatusOr<std::shared_ptr<const DecodeModel>> LoadModel(
    const std::string& folder, absl::Span<const std::string> allow_links,
    const CompileOptions& options, std::vector<std::string>* warnings = nullptr);

struct TryOptions {
  // Most requests of golden.jsonl that are replayed (golden.h); 0: none.
  int golden_requests = 100;
  // Requests of warmup.jsonl are decoded, and made-up sources in batches of up to this number of
  // rows (warm_up.h); 0: neither.
  int warm_up_rows = 1;
  const Interruption* interruption = nullptr;  // of what is decoded; may be null
};

// Decodes what the model's bundle in `folder` brings for that. Errors as ReplayGolden's and
// WarmUp's.
absl::Status TryModel(const std::shared_ptr<const DecodeModel>& model, const std::string& folder,
                      absl::Span<const std::string> allow_links, const TryOptions& options);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_LOAD_MODEL_H_
