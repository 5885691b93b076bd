// What answers have in common, whatever the search: their text, which stop strings may end, the
// facts of source and time, and where their words are; and alignments, as answers of scoring.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_ANSWERS_H_
#define BEAMWRIGHT_ENGINE_REQUEST_ANSWERS_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/bundle/text_codec.h"
#include "engine/model/decode_model.h"
#include "engine/request/request.h"
#include "engine/search/tries.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

// The text of a hypothesis, which stop strings may end before its tokens do.

// Up to the first of `stop` (null: none) behind `prefix` tokens. unfinished: other tokens may
// follow, so that bytes of an incomplete character, and what a stop string may begin with, are left
// out.
std::string AnswerText(const bundle::TextCodec& codec, absl::Span<const int32_t> tokens,
                       size_t prefix, const search::StopStrings* stop, bool unfinished);

// What the answers of every search have: the facts of a source and its time, and texts once.

// answer: a v1::Decoded or v1::Scored.
template <typename Answer>
void FillFacts(const Request& request, Answer& answer) {
  answer.set_source_length(request.source.source_length);
  answer.mutable_unknown_positions()->Add(request.source.unknown_positions.begin(),
                                          request.source.unknown_positions.end());
  answer.set_queue_ms(absl::ToDoubleMilliseconds(request.started - request.accepted));
  answer.set_compute_ms(absl::ToDoubleMilliseconds(SteadyNow() - request.started));
}

// The first hypothesis of each text, at most request.most_texts; all, where that is 0. text_of:
// the text of a hypothesis.
template <typename Hypothesis, typename TextOf>
std::vector<Hypothesis> DistinctTexts(const Request& request, std::vector<Hypothesis> all,
                                      TextOf text_of) {
  if (request.most_texts == 0) {
    return all;
  }
  std::set<std::string> texts;
  std::vector<Hypothesis> kept;
  for (Hypothesis& hypothesis : all) {
    if (static_cast<int>(kept.size()) < request.most_texts &&
        texts.insert(text_of(hypothesis)).second) {
      kept.push_back(std::move(hypothesis));
    }
  }
  return kept;
}

// The words of answers: where their tokens are, when they were said, how sure they are.

// Fills `words` of each hypothesis of a list, best first; none where a hypothesis has no text. A
// word ends at white space, and between two tokens where a character of a script without spaces is
// on either side. Times count from where token_frames count from. Only the first hypothesis' words
// have posteriors, and none have them where the list is too long to be aligned (kMostWordPairs).
void FillWords(const DecodeModel& model,
               google::protobuf::RepeatedPtrField<v1::Hypothesis>& hypotheses);

// Words of the first hypothesis times words of another, without what both begin and end with,
// summed over the list.
inline constexpr size_t kMostWordPairs = size_t{1} << 22;

// To align is to score one target without its end token and to look at where the attention was. So
// an AlignRequest is answered as a ScoreRequest, whatever the protocol.

// The request to score. InvalidArgument without any pair.
absl::StatusOr<v1::ScoreRequest> ToScoreRequest(v1::AlignRequest request);

// What was scored for it, as alignments.
v1::AlignResponse ToAlignResponse(v1::ScoreResponse response);

// An error of the request to score in the terms of the request to align: the field
// "targets[0].text" is "target.text".
absl::Status InAlignTerms(const absl::Status& status);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_ANSWERS_H_
