// Reads options of a request that name tokens: lists, sets, sequences, biases and hotwords. Each
// function checks its field and adds its faults, so that the caller reports all of them together.
//
// Biases of one token that occurs more than once: the last one holds. The number of tokens is
// bounded for each field, since every waiting source of a call holds what was made of them.
#include "engine/options/option_tokens.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "engine/model/parts.h"
#include "ops/base/status.h"

namespace beamwright::engine {

// Target tokens in requests, given as text or ids (ReadTokens, ReadTargetList), and what a model's
// vocabulary means for a search (SetModelTokens: end tokens, banned tokens, columns without a
// token).
//
// A text is encoded by the target's tokenizer; ids are checked against the vocabulary. Faults of
// all targets are collected, each with its field, such as "targets[2].ids[5]". Lengths and numbers
// are bounded, since a waiting source holds its targets.

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

namespace {

// Most tokens that one field may name, all its sequences together: every waiting source of a call
// holds what was made of them. Larger lists belong into the bundle.
constexpr size_t kMaxTokens = 1 << 16;
// The same of hotwords, whose automaton is asked for each candidate of each row.
constexpr size_t kMaxHotwordTokens = 1 << 14;

}  // namespace

std::vector<int32_t> OptionTokens::Tokens(const std::string& field,
                                          const v1::TargetTokens& tokens) {
  absl::StatusOr<std::vector<int32_t>> ids = ReadTokens(model_, field, tokens);
  if (!ids.ok()) {
    for (const status::Fault& fault : status::FaultsOf(ids.status())) {
      Add(fault.field, fault.text);
    }
    return {};
  }
  return *std::move(ids);
}

std::vector<int32_t> OptionTokens::List(const std::string& field, const v1::TargetTokens& tokens) {
  std::vector<int32_t> list = Tokens(field, tokens);
  if (list.size() > kMaxTokens) {
    Add(field, "has ", list.size(), " tokens; at most ", kMaxTokens, " are allowed");
    list.clear();
  }
  return list;
}

// Sorted and distinct, as search options want sets.
std::vector<int32_t> OptionTokens::Set(const std::string& field, const v1::TargetTokens& tokens) {
  std::vector<int32_t> set = Tokens(field, tokens);
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return set;
}

std::vector<search::TokenSequence> OptionTokens::Sequences(
    const std::string& field, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& list) {
  std::vector<search::TokenSequence> sequences;
  size_t count = 0;
  for (int i = 0; i < list.size(); ++i) {
    sequences.push_back(Tokens(absl::StrCat(field, "[", i, "]"), list[i]));
    count += sequences.back().size();
    if (count > kMaxTokens) {
      Add(field, "more than ", kMaxTokens, " tokens");
      return {};
    }
  }
  return sequences;
}

namespace {

// Of a message that names tokens as TargetTokens does, among other things.
template <typename Message>
v1::TargetTokens TokensOf(const Message& message) {
  v1::TargetTokens tokens;
  if (message.has_text()) {
    tokens.set_text(message.text());
  } else {
    *tokens.mutable_ids() = message.ids();
  }
  return tokens;
}

}  // namespace

std::vector<search::TokenBias> OptionTokens::Biases(
    const google::protobuf::RepeatedPtrField<v1::LogitBias>& list) {
  std::map<int32_t, float> biases;
  size_t count = 0;
  for (int i = 0; i < list.size(); ++i) {
    const std::string field = absl::StrCat("logit_bias[", i, "]");
    if (!list[i].has_bias()) {
      Add(absl::StrCat(field, ".bias"), "is not set");
    }
    const std::vector<int32_t> tokens = Tokens(field, TokensOf(list[i]));
    count += tokens.size();
    if (count > kMaxTokens) {
      Add("logit_bias", "more than ", kMaxTokens, " tokens");
      return {};
    }
    for (const int32_t token : tokens) {
      biases[token] = list[i].bias();
    }
  }
  std::vector<search::TokenBias> result;
  for (const auto& [token, bias] : biases) {
    result.push_back({token, bias});
  }
  return result;
}

std::vector<search::Hotword> OptionTokens::Hotwords(const v1::DecodeOptions& options) {
  std::vector<search::Hotword> hotwords;
  size_t count = 0;
  for (int i = 0; i < options.hotwords_size(); ++i) {
    const v1::Hotword& hotword = options.hotwords(i);
    hotwords.push_back({Tokens(absl::StrCat("hotwords[", i, "]"), TokensOf(hotword)),
                        hotword.has_bonus() ? double{hotword.bonus()} : 1.0});
    count += hotwords.back().tokens.size();
    if (count > kMaxHotwordTokens) {
      Add("hotwords", "more than ", kMaxHotwordTokens, " tokens");
      return {};
    }
  }
  return hotwords;
}

std::shared_ptr<const search::TokenTrie> OptionTokens::AllowedList(const std::string& name) {
  const auto& lists = model_.parts().token_lists;
  const auto list = lists.find(name);
  if (list != lists.end()) {
    return list->second;
  }
  Add("allowed_list", "the model has no list '", absl::Utf8SafeCEscape(name), "'; it has ",
      lists.size(), lists.empty() ? "" : ": ",
      absl::StrJoin(lists, ", ", [](std::string* out, const auto& entry) {
        absl::StrAppend(out, "'", entry.first, "'");
      }));
  return nullptr;
}

// The scorers that a request weighs, by name. All faults are added, each with its field; weights of
// 0 are left out.
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
