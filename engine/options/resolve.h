// What can be said of a request whatever the source: its options against a model, how many sources.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_RESOLVE_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_RESOLVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::engine {

class DecodeModel;

// A request's options, merged with the model's and checked: what the sources of a call share.
// Immutable.
struct ResolvedOptions;

// InvalidArgument naming all wrong fields, and all fields that exclude each other.
absl::StatusOr<std::shared_ptr<const ResolvedOptions>> ResolveOptions(
    const DecodeModel& model, const v1::DecodeOptions& options);

// What is wrong with a request's options for this model, whatever the source: InvalidArgument
// naming every wrong field. A server calls it to fail a call as a whole.
absl::Status CheckOptions(const DecodeModel& model, const v1::DecodeOptions& options);
absl::Status CheckScoreOptions(const DecodeModel& model, const v1::ScoreOptions& options);

inline constexpr int kMaxSources = 4096;  // of a call

// InvalidArgument if a call has no source or too many; `verb`: what is to be done with them.
absl::Status CheckNumSources(int num_sources, const char* verb);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_RESOLVE_H_
