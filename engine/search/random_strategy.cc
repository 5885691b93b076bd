#include "engine/search/random_strategy.h"

namespace beamwright::search {

void RandomStrategy::Prepare(const Step& step, absl::Span<RowRules> rules) const {
  const SamplingOptions& sampling = step.options().sampling;
  for (size_t r = 0; r < rules.size(); ++r) {
    RowDraw& draw = rules[r].draw;
    draw.kind = DrawKind::kSample;
    draw.seed = sampling.seed;
    draw.position = static_cast<uint32_t>(step.num_generated());
    draw.stream = static_cast<uint32_t>(step.rows()[r].sample);
    draw.count = step.num_generated() == 0 ? step.options().beam_size : 1;
    draw.top_k = sampling.top_k;
    draw.top_p = static_cast<float>(sampling.top_p);
    draw.min_p = static_cast<float>(sampling.min_p);
  }
}

absl::Status RandomStrategy::Choose(Step& step, Choice& choice) {
  for (size_t r = 0; r < step.rows().size(); ++r) {
    for (size_t i = 0; i < step.candidates()[r].tokens.size(); ++i) {
      Pair pair = step.MakePair(r, i);
      pair.group = step.rows()[r].sample + static_cast<int32_t>(i);
      step.Note(pair, 0, step.IsEnd(pair.token) ? Fate::kAnswer : Fate::kKept);
      (step.IsEnd(pair.token) ? choice.finishing : choice.living).push_back(pair);
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::search
