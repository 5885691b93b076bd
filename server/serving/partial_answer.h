// What clients are told of a hypothesis before its search ends, in streams of every kind.
#ifndef BEAMWRIGHT_SERVER_SERVING_PARTIAL_ANSWER_H_
#define BEAMWRIGHT_SERVER_SERVING_PARTIAL_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "server/engine/model/decode_model.h"

namespace beamwright::serving {

// Tokens with which every answer will begin.
struct StablePrefix {
  std::vector<int32_t> tokens;
  size_t num_taken = 0;  // of them, by the client

  bool has_news() const { return num_taken < tokens.size(); }
};

// Sets the tokens that were not taken yet, their position, and the text of all.
void TakeStable(const engine::DecodeModel& model, StablePrefix& prefix, v1::StableTokens& message);

// Sets tokens, text and score.
void SetProvisional(const engine::DecodeModel& model, absl::Span<const int32_t> tokens,
                    double score, v1::Hypothesis& message);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_PARTIAL_ANSWER_H_
