// Engine: decodes sources with beam search, many at once, on its thread team. It needs no
// server: examples/decode_in_process.cc is the whole of it.
//
// A scheduler thread (or several: streams) admits requests, runs encoders in groups of equal source
// length and no more of them between two steps than max_encode_positions, and steps all running
// requests together, each at its own time step; rows of finished requests are free at the next
// step.
#ifndef BEAMWRIGHT_INCLUDE_BEAMWRIGHT_ENGINE_H_
#define BEAMWRIGHT_INCLUDE_BEAMWRIGHT_ENGINE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/options/resolve.h"
#include "engine/request/call.h"
#include "engine/request/engine_options.h"
#include "engine/request/quarantine.h"
#include "engine/request/tenant.h"

namespace beamwright::engine {

struct PreparedSource;

// Thread-safe.
class Engine {
 public:
  using Callback = DecodeCallback;
  using ScoreCallback = engine::ScoreCallback;

  static absl::StatusOr<std::unique_ptr<Engine>> Start(EngineOptions options);
  // Finishes what was accepted.
  virtual ~Engine() = default;

  // Decodes one source. `done` is called exactly once: at once for what is refused (InvalidArgument
  // naming all wrong fields, ResourceExhausted when queue or tenant have no room or the deadline
  // would be missed, Unavailable while draining), else on the engine's thread; it must not block.
  void Decode(std::shared_ptr<const DecodeModel> model, v1::Source source,
              const v1::DecodeOptions& options, const CallOptions& call, Callback done);

  // The same with options that ResolveOptions made for this model: once for all sources of a call.
  virtual void DecodeResolved(std::shared_ptr<const DecodeModel> model, v1::Source source,
                              std::shared_ptr<const ResolvedOptions> options,
                              const CallOptions& call, Callback done) = 0;

  // The same of a source that PrepareSource (engine/request/prepared_source.h) made for this model.
  virtual void DecodePrepared(std::shared_ptr<const DecodeModel> model, PreparedSource source,
                              std::shared_ptr<const ResolvedOptions> options,
                              const CallOptions& call, Callback done) = 0;

  // Decodes a source whose frames arrive by call.feed, for models that are searched by frames and
  // have no encoder: in segments, which call.progress reports; they end where a rule of
  // call.endpoint is met. The reports, and the answer, which is that of the last segment, do not
  // depend on when frames came, or on the pieces. `done` as for Decode; InvalidArgument besides if
  // the search needs the whole source, or has had no frame.
  virtual void Recognize(std::shared_ptr<const DecodeModel> model,
                         std::shared_ptr<const ResolvedOptions> options, const CallOptions& call,
                         Callback done) = 0;

  // Scores targets for one source, in the same batches as what is decoded. `done` as for Decode.
  virtual void Score(std::shared_ptr<const DecodeModel> model, v1::ScoreSource source,
                     const v1::ScoreOptions& options, const CallOptions& call,
                     ScoreCallback done) = 0;

  // The same, waiting for the answer.
  absl::StatusOr<v1::Decoded> DecodeAndWait(std::shared_ptr<const DecodeModel> model,
                                            v1::Source source, const v1::DecodeOptions& options,
                                            const CallOptions& call = {});
  absl::StatusOr<v1::Scored> ScoreAndWait(std::shared_ptr<const DecodeModel> model,
                                          v1::ScoreSource source, const v1::ScoreOptions& options,
                                          const CallOptions& call = {});

  // Refuses new requests from now on and returns when all accepted ones are answered.
  virtual void Drain() = 0;

  // There is no time left: answers all accepted requests now, without waiting for them. A search
  // whose deadline_result is best-so-far answers what it has; all else fails with `why`.
  virtual void End(absl::Status why) = 0;

  using Load = EngineLoad;
  virtual Load load() const = 0;
  // Whether all that was accepted is answered; within `done`, that one counts as answered. Takes no
  // lock.
  virtual bool idle() const = 0;
  // Which models are out of service (EngineOptions::quarantine). The engine reports runs that do
  // not come to an end, on its threads; a server counts how its calls end, and asks before a call.
  virtual Quarantine& quarantine() = 0;
  // Of all tenants that wait or run, by name.
  virtual std::vector<TenantLoad> Tenants() const = 0;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_INCLUDE_BEAMWRIGHT_ENGINE_H_
