// Target tokens in requests, given as text or ids (ReadTokens, ReadTargetList), and what a model's
// vocabulary means for a search (SetModelTokens: end tokens, banned tokens, columns without a
// token).
//
// A text is encoded by the target's tokenizer; ids are checked against the vocabulary. Faults of
// all targets are collected, each with its field, such as "targets[2].ids[5]". Lengths and numbers
// are bounded, since a waiting source holds its targets.
#include "engine/options/target_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {

namespace {

// Most tokens of the targets of one source together.
constexpr size_t kMaxTargetTokens = 1 << 16;

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

absl::StatusOr<std::vector<search::TokenSequence>> ReadTargetList(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets,
    bool may_be_empty, absl::FunctionRef<void(search::TokenSequence&)> complete) {
  if (targets.empty() || targets.size() > search::kMaxBeamSize) {
    return status::InvalidField("targets", "has ", targets.size(), " entries, must have 1 to ",
                                search::kMaxBeamSize);
  }
  const auto most = static_cast<size_t>(MaxTargetLength(model));
  std::vector<search::TokenSequence> sequences;
  status::Faults faults;
  size_t count = 0;
  for (int i = 0; i < targets.size(); ++i) {
    const std::string field = absl::StrCat("targets[", i, "]");
    const bool is_empty =
        targets[i].has_text() ? targets[i].text().empty() : targets[i].ids().ids().empty();
    search::TokenSequence tokens;
    if (!is_empty || !may_be_empty) {
      absl::StatusOr<std::vector<int32_t>> read = ReadTokens(model, field, targets[i]);
      if (!read.ok()) {
        const status::Faults found = status::FaultsOf(read.status());
        faults.insert(faults.end(), found.begin(), found.end());
        continue;
      }
      tokens = *std::move(read);
    }
    complete(tokens);
    if (tokens.size() > most) {
      faults.Add(field, "has ", tokens.size(), " tokens; at most ", most, " are allowed");
    }
    count += tokens.size();
    sequences.push_back(std::move(tokens));
  }
  if (count > kMaxTargetTokens) {
    faults.Add("targets", "have ", count, " tokens together; at most ", kMaxTargetTokens,
               " are allowed for a source");
  }
  if (!faults.empty()) {
    return status::InvalidFields(faults);
  }
  return sequences;
}

void SetModelTokens(const DecodeModel& model, search::SearchOptions& search) {
  const bundle::TextCodec& target = model.target();
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
  // Columns of logits without a token.
  for (int id = target.size(); target.size() > 0 && id < search.vocabulary_size; ++id) {
    search.banned_tokens.push_back(id);
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
