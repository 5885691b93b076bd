// What the answers of every search have: the facts of a source and its time, and texts once.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_ANSWER_FACTS_H_
#define BEAMWRIGHT_ENGINE_REQUEST_ANSWER_FACTS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/decode_model.h"
#include "engine/request/request.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

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

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_ANSWER_FACTS_H_
