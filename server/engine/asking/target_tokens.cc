#include "server/engine/asking/target_tokens.h"

#include <algorithm>

#include "ops/base/status.h"
#include "server/engine/model/parts.h"
#include "server/status/fault.h"

namespace beamwright::engine {

namespace {

absl::StatusOr<std::vector<int32_t>> ReadIds(const DecodeModel& model, const std::string& field,
                                             const v1::TargetTokens& tokens) {
  if (tokens.kind_case() == v1::TargetTokens::kText) {
    absl::StatusOr<std::vector<int32_t>> ids = model.target().EncodePart(tokens.text());
    if (!ids.ok()) {
      return status::WithFields(ids.status(), [&field](absl::string_view part) {
        return absl::StrCat(field, ".", part);
      });
    }
    return ids;
  }
  if (tokens.ids().ids().empty()) {
    return status::InvalidField(field, "is empty; set text or ids");
  }
  const int size = model.target_vocabulary_size();
  for (int i = 0; i < tokens.ids().ids_size(); ++i) {
    if (tokens.ids().ids(i) < 0 || tokens.ids().ids(i) >= size) {
      return status::InvalidField(absl::StrCat(field, ".ids[", i, "]"), tokens.ids().ids(i),
                                  " is outside [0, ", size, ")");
    }
  }
  return std::vector<int32_t>(tokens.ids().ids().begin(), tokens.ids().ids().end());
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ReadTokens(const DecodeModel& model, const std::string& field,
                                                const v1::TargetTokens& tokens) {
  BW_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadIds(model, field, tokens));
  const FramesPart* const frames = model.parts().frames.get();
  if (frames != nullptr && std::find(ids.begin(), ids.end(), frames->blank) != ids.end()) {
    return status::InvalidField(field, "token ", frames->blank,
                                " is the blank, which no answer has");
  }
  return ids;
}

void SetModelTokens(const DecodeModel& model, search::SearchOptions& search) {
  const model::TextCodec& target = model.target();
  search.vocabulary_size = model.target_vocabulary_size();
  search.begin_token = target.begin_id();
  search.end_tokens = target.end_ids();
  search.num_members = static_cast<int>(model.parts().member_weights.size());
  // Padding alone is banned: banning the begin token as well would renormalise every score away
  // from what the training framework computes for the same tokens.
  const int pad = target.pad_id();
  const std::vector<int32_t>& ends = search.end_tokens;
  if (pad >= 0 && pad < search.vocabulary_size &&
      std::find(ends.begin(), ends.end(), pad) == ends.end()) {
    search.banned_tokens.push_back(pad);
  }
}

int MaxTargetLength(const DecodeModel& model) {
  const int limit = model.config().limits().max_target_length();
  return limit > 0 ? limit : search::kMaxLength;
}

int MaxBeamSize(const DecodeModel& model) {
  const int limit = model.config().limits().max_beam_size();
  return limit > 0 ? limit : search::kMaxBeamSize;
}

}  // namespace beamwright::engine
