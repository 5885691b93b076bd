// What clients receive of a hypothesis before its search ends, in streams of every kind.
#ifndef BEAMWRIGHT_SERVER_SERVING_PARTIAL_ANSWER_H_
#define BEAMWRIGHT_SERVER_SERVING_PARTIAL_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"
#include "engine/request/call.h"

namespace beamwright::serving {

// What a stream of answers had for its taker: nothing yet, a message, or the end with its status.
enum class Taken { kNothing, kMessage, kEnd };

// Tokens with which every answer will begin.
struct StablePrefix {
  std::vector<int32_t> tokens;
  size_t num_taken = 0;  // of them, by the client

  bool has_news() const { return num_taken < tokens.size(); }
};

// What may end a text before its tokens do (engine::AnswerText).
struct TextEnd {
  std::shared_ptr<const search::StopStrings> stop_strings;  // null: nothing
  size_t prefix_length = 0;
};

// Sets the tokens that were not taken yet, their position, and the text of all.
void TakeStable(const engine::DecodeModel& model, const TextEnd& end, StablePrefix& prefix,
                v1::StableTokens& message);

// With tokens, their frames, text and score.
v1::Hypothesis MakeProvisional(const engine::DecodeModel& model, const TextEnd& end,
                               const engine::Provisional& hypothesis);

// Sets the words of the segment: those of its best hypothesis that have times, in the source. None
// if the model does not say how long a frame is.
void SetWords(const engine::DecodeModel& model, v1::RecognizedSegment& segment);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_PARTIAL_ANSWER_H_
