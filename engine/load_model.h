// From a bundle's folder to a model that was seen to decode. The server, the library for decoding
// in process and `beamwright-graph check` load models by these, so that all refuse the same ones.
#ifndef BEAMWRIGHT_ENGINE_LOAD_MODEL_H_
#define BEAMWRIGHT_ENGINE_LOAD_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/model/decode_model.h"

namespace beamwright::engine {

// Golden requests: a bundle may bring requests with their answers (golden.jsonl, docs/bundle.md),
// and a model that answers them otherwise than its maker saw is not fit to serve.

// Decodes at most `max_requests` of the file's requests, spread over it, together, on one thread of
// its own, and compares the best hypotheses. In the numerics class that a line records every token
// and score must be equal; in another one the tokens, unless the line's own best two are nearer to
// each other than rounding reaches. InvalidArgument for a bad line; FailedPrecondition
// naming the first line that is answered otherwise, and how many are. interruption: of the
// decoding; may be null.
absl::Status ReplayGolden(const std::shared_ptr<const DecodeModel>& model,
                          const std::string& content, int max_requests,
                          const Interruption* interruption = nullptr);

// Warm-up: what is slow the first time is done before a version serves, so that no client pays for
// it: pages are touched, buffers grow, kernels are made for the sizes that will come.

struct WarmUpOptions {
  // Rows of the largest batch of made-up sources; batches double from one row on. Not positive:
  // none are made up.
  int max_rows = 0;
  // Made-up sources are given up after that.
  absl::Duration most = absl::Milliseconds(200);
  const Interruption* interruption = nullptr;  // of what is decoded; may be null
};

// Decodes the requests of `content` (the bundle's warmup.jsonl, docs/bundle.md; empty: none) and
// then made-up sources in batches, on one separate thread. What a made-up source is answered does
// not matter; a request of the bundle that fails does: FailedPrecondition naming its line, and
// InvalidArgument for a bad line.
absl::Status WarmUp(const std::shared_ptr<const DecodeModel>& model, const std::string& content,
                    const WarmUpOptions& options);

// Reads and compiles the bundle, one weight after the other, so that files and packed weights are
// not in memory together. allow_links as for LoadBundle. What importers only warn of goes to
// `warnings`, if it is not null: "<graph>: <warning>". Errors are LoadBundle's and
// DecodeModel::Compile's; both begin with "bundle '<folder>': ".
absl::StatusOr<std::shared_ptr<const DecodeModel>> LoadModel(
    const std::string& folder, absl::Span<const std::string> allow_links,
    const CompileOptions& options, std::vector<std::string>* warnings = nullptr);

struct TryOptions {
  // Most requests of golden.jsonl that are replayed; 0: none.
  int golden_requests = 100;
  // Requests of warmup.jsonl are decoded, and made-up sources in batches of up to this number of
  // rows; 0: neither.
  int warm_up_rows = 1;
  const Interruption* interruption = nullptr;  // of what is decoded; may be null
};

// Decodes what the model's bundle in `folder` brings for that. Errors as ReplayGolden's and
// WarmUp's.
absl::Status TryModel(const std::shared_ptr<const DecodeModel>& model, const std::string& folder,
                      absl::Span<const std::string> allow_links, const TryOptions& options);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_LOAD_MODEL_H_
