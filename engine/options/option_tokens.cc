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
#include "engine/options/target_tokens.h"

namespace beamwright::engine {
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

}  // namespace beamwright::engine
