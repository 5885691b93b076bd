#include "engine/options/fusion_options.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

std::vector<search::ScorerWeight> ReadFusion(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::FusionWeight>& fusion,
    status::Faults& faults) {
  const DecodeModel::Parts& parts = model.parts();
  std::vector<search::ScorerWeight> scorers;
  for (int i = 0; i < fusion.size(); ++i) {
    const v1::FusionWeight& wanted = fusion[i];
    const auto fault = [&](const char* field, const auto&... pieces) {
      faults.Add(absl::StrCat("options.fusion[", i, "].", field), pieces...);
    };
    const ScorerPart* const scorer = parts.FindScorer(wanted.name());
    if (scorer == nullptr) {
      fault("name", "the model has no scorer '", absl::Utf8SafeCEscape(wanted.name()), "'; it has ",
            parts.scorers.size(), parts.scorers.empty() ? "" : ": ",
            absl::StrJoin(parts.scorers, ", ", [](std::string* out, const ScorerPart& part) {
              absl::StrAppend(out, "'", part.name, "'");
            }));
      continue;
    }
    if (!wanted.has_weight()) {
      fault("weight", "is not set");
      continue;
    }
    if (wanted.weight() < scorer->min_weight || wanted.weight() > scorer->max_weight) {
      fault("weight", wanted.weight(), " is outside [", scorer->min_weight, ", ",
            scorer->max_weight, "], what the model allows of '", scorer->name, "'");
    }
    for (int j = 0; j < i; ++j) {
      if (fusion[j].name() == wanted.name()) {
        fault("name", "'", wanted.name(), "' is given twice");
      }
    }
    if (wanted.weight() != 0) {
      scorers.push_back({scorer->name, wanted.weight()});
    }
  }
  if (scorers.size() > search::kMaxScorers) {
    faults.Add("options.fusion", scorers.size(), " scorers; at most ", search::kMaxScorers,
               " count in one request");
  }
  return scorers;
}

}  // namespace beamwright::engine
