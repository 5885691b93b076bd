// Warm-up: what is slow the first time is done before a version serves, so that no client pays for
// it: pages are touched, buffers grow, kernels are made for the sizes that will come.
#ifndef BEAMWRIGHT_ENGINE_WARM_UP_H_
#define BEAMWRIGHT_ENGINE_WARM_UP_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/model/decode_model.h"

namespace beamwright::engine {

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

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_WARM_UP_H_
