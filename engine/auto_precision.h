// The precision `auto` for one model (docs/numerics.md, 'auto'): the fastest precision in which the
// model answers test requests as in f32. Follows from the bundle and the CPU's kind, never from
// a clock. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_AUTO_PRECISION_H_
#define BEAMWRIGHT_ENGINE_AUTO_PRECISION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/decode_model.h"

namespace beamwright::engine {

// How far answers in one precision are from those in f32.
struct PrecisionTrial {
  int requests = 0;  // that f32 answers
  int other_best = 0;
  int other_lists = 0;       // n-best lists as wide as the beam
  double largest_shift = 0;  // of the best hypothesis' score, where it is the same
  double most_shift = 0.1;   // that is allowed

  // At most 0.5 % of the best hypotheses and 5 % of the lists differ, and no score by more than
  // most_shift.
  bool IsClose() const;
  // The same if all other answers, `of_requests` in all, agree: if not, the trial is over.
  bool IsClose(int of_requests) const;
  std::string ToString() const;
};

// answers: null where a request failed; requests that failed in f32 do not count.
PrecisionTrial CompareAnswers(absl::Span<const std::unique_ptr<v1::Decoded>> exact,
                              absl::Span<const std::unique_ptr<v1::Decoded>> answers);

// DecodeModel::Compile with the first of int8, int8-core, bf16-amx and bf16-dot (where the CPU has
// them) and bf16 that is close, or f32; f32 without trying all where neither int8 nor bf16 is.
// Tried with up to 100 of the bundle's golden requests, or, if it has none, with 40 to 200 sources
// of random ids or features, fewer of a large model. Where a source can't be made up it is f32.
// Errors as Compile's.
absl::StatusOr<std::shared_ptr<const DecodeModel>> CompileAuto(bundle::Bundle bundle,
                                                               CompileOptions options);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_AUTO_PRECISION_H_
