// SearchKind: how sources of a model are searched for: the requests that it makes of them, and the
// driver that advances these. The engine queues, admits, encodes and steps requests of any kind.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_SEARCH_KIND_H_
#define BEAMWRIGHT_ENGINE_REQUEST_SEARCH_KIND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/request/driver.h"
#include "engine/request/engine_options.h"
#include "engine/request/request.h"

namespace beamwright::engine {

struct ResolvedOptions;

// Thread-safe. One for all models of the kind; it outlives them.
class SearchKind {
 public:
  virtual ~SearchKind() = default;

  // From what a caller asks to a Request that may be queued: options checked, its price known, its
  // search made. source: PrepareSource made it for the model. On the caller's thread. Errors:
  // InvalidArgument naming the fields that are wrong; ResourceExhausted, with what it asks, what
  // there is and what to lower, if the request alone would need more rows or bytes than `limits`
  // allow all that run together.
  virtual absl::StatusOr<std::unique_ptr<Request>> MakeRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model, PreparedSource source,
      const ResolvedOptions& options, const CallOptions& call) const = 0;
  // The same for a source that arrives while it is searched: its frames come by call.feed.
  // InvalidArgument: a search of this kind needs the whole source.
  virtual absl::StatusOr<std::unique_ptr<Request>> MakeStreamRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
      const ResolvedOptions& options, const CallOptions& call) const;
  // The same for targets that are given. Unimplemented: it can't score.
  virtual absl::StatusOr<std::unique_ptr<Request>> MakeScoreRequest(
      const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
      const v1::ScoreSource& source, const v1::ScoreOptions& options,
      const CallOptions& call) const = 0;
  virtual std::unique_ptr<Driver> MakeDriver(std::shared_ptr<const DecodeModel> model) const = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_SEARCH_KIND_H_
