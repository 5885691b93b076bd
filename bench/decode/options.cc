#include "bench/decode/options.h"

#include <algorithm>
#include <memory>
#include <random>

#include "absl/strings/str_format.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/proto_text.h"
#include "include/beamwright/engine.h"
#include "ops/base/status.h"
#include "tools/bundle/cost.h"

namespace beamwright::bench {
namespace {

using tools::DecodeCase;
using tools::DecodeResult;

struct NamedOptions {
  std::string name;
  std::string text;  // of v1::DecodeOptions
};

// Ids stand for some tokens of any vocabulary.
std::vector<NamedOptions> AllOptions() {
  std::string hotwords;
  std::string shortlist = "shortlist { ids {";
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&hotwords, "hotwords { ids { ids: ", 5 + i % 20, " ids: ", 5 + i * 7 % 23,
                    " ids: ", 5 + i / 20, " } bonus: 2 } ");
  }
  for (int i = 0; i < 32; ++i) {
    absl::StrAppend(&shortlist, " ids: ", i);
  }
  return {
      {"length_penalty gnmt", "length_penalty: LENGTH_PENALTY_GNMT"},
      {"length_penalty pow", "length_penalty: LENGTH_PENALTY_POW"},
      {"stop first", "stop: STOP_MODE_FIRST"},
      {"stop count", "stop: STOP_MODE_COUNT"},
      {"stop never", "stop: STOP_MODE_NEVER"},
      {"n_best 4", "n_best: 4"},
      {"at_limit force-end", "at_limit: AT_LIMIT_FORCE_END"},
      {"word_reward", "word_reward: 0.1"},
      {"end_threshold", "end_threshold: 1.5"},
      {"score_threshold", "score_threshold: -20"},
      {"beam_threshold", "beam_threshold: 10"},
      {"coverage_penalty", "coverage_penalty: 0.2"},
      {"min_length", "min_length: 4"},
      {"repetition_penalty", "repetition_penalty: 1.05"},
      {"no_repeat_ngram", "no_repeat_ngram: 3"},
      {"suppress_tokens", "suppress_tokens { ids { ids: 5 ids: 6 ids: 7 } }"},
      {"suppress_at_begin", "suppress_at_begin { ids { ids: 5 ids: 6 ids: 7 } }"},
      {"suppress_sequences", "suppress_sequences { ids { ids: 5 ids: 6 ids: 7 } }"},
      {"temperature", "temperature: 0.9"},
      {"renormalize false", "renormalize: false temperature: 0.9"},
      {"soft_prefix", "soft_prefix { ids { ids: 5 ids: 6 ids: 7 } }"},
      {"target_prefix", "target_prefix { ids { ids: 5 ids: 6 } } score_prefix: true"},
      {"num_alternatives 4", "num_alternatives: 4 n_best: 4"},
      {"shortlist 32", shortlist + " } }"},
      {"required_sequences", "required_sequences { ids { ids: 9 } }"},
      {"hotwords 100", hotwords},
      {"diverse_groups 2", "diverse_groups: 2"},
      {"sampling random 4", "sampling: SAMPLING_RANDOM n_best: 4"},
      {"top_k, top_p, min_p",
       "sampling: SAMPLING_RANDOM n_best: 4 top_k: 20 top_p: 0.9 min_p: 0.02"},
      {"sampling without-replacement", "sampling: SAMPLING_WITHOUT_REPLACEMENT n_best: 4"},
      {"top_tokens 5", "top_tokens: 5"},
      {"lattice", "lattice: true"},
      {"attention hard", "attention: ATTENTION_HARD"},
      {"attention soft", "attention: ATTENTION_SOFT"},
      {"allowed_list 1,000", "allowed_list: 'thousand'"},
      {"allowed_list 1,000,000", "allowed_list: 'million'"},
  };
}

// Random entries of eight tokens.
void AddList(const std::string& name, int entries, bundle::Bundle& bundle) {
  std::mt19937 random(1);
  const std::vector<int32_t>& ends = bundle.target->end_ids();
  std::string content;
  for (int i = 0; i < entries; ++i) {
    std::vector<int32_t> tokens;
    while (tokens.size() < 8) {
      const auto token = static_cast<int32_t>(random() % static_cast<uint32_t>(32));
      if (std::find(ends.begin(), ends.end(), token) == ends.end() &&
          token != bundle.target->begin_id() && token != bundle.target->pad_id()) {
        tokens.push_back(token);
      }
    }
    absl::StrAppend(&content, bundle.target->Decode(tokens), "\n");
  }
  bundle.config.add_token_lists()->set_name(name);
  bundle.token_lists[name] = std::move(content);
}

double PerRequest(const DecodeResult& result) {
  return result.cpu_seconds / static_cast<double>(std::max<int64_t>(result.sentences, 1));
}

double PerToken(const DecodeResult& result) {
  return result.cpu_seconds / static_cast<double>(std::max<int64_t>(result.tokens, 1));
}

}  // namespace

absl::StatusOr<std::vector<OptionCost>> MeasureOptions(const std::string& folder,
                                                       const std::vector<v1::Source>& sources,
                                                       int concurrency, double seconds) {
  BW_ASSIGN_OR_RETURN(bundle::Bundle bundle, bundle::LoadBundle(folder));
  AddList("thousand", 1000, bundle);
  AddList("million", 1'000'000, bundle);
  BW_ASSIGN_OR_RETURN(const std::shared_ptr<const engine::DecodeModel> model,
                      engine::DecodeModel::Compile(std::move(bundle)));
  const auto measure = [&](const v1::DecodeOptions& options) {
    DecodeCase one;
    one.concurrency = concurrency;
    one.seconds = seconds;
    one.options = options;
    return tools::BenchDecode(model, sources, one);
  };
  std::vector<OptionCost> costs;
  BW_ASSIGN_OR_RETURN(DecodeResult before, measure({}));
  costs.push_back({"none", 1, 1, 1e6 * PerToken(before)});
  for (const NamedOptions& option : AllOptions()) {
    v1::DecodeOptions options;
    BW_RETURN_IF_ERROR(bundle::ParseTextProto(option.text, options));
    if (!engine::CheckOptions(*model, options).ok()) {
      continue;
    }
    const absl::StatusOr<DecodeResult> with = measure(options);
    if (!with.ok()) {
      return Annotate(with.status(), option.name);
    }
    BW_ASSIGN_OR_RETURN(DecodeResult after, measure({}));
    costs.push_back({option.name, 2 * PerRequest(*with) / (PerRequest(before) + PerRequest(after)),
                     2 * PerToken(*with) / (PerToken(before) + PerToken(after)),
                     1e6 * PerToken(*with)});
    before = after;
  }
  return costs;
}

std::string CostsText(const std::vector<OptionCost>& costs) {
  std::string text = absl::StrFormat("%-30s  %11s  %9s  %12s\n", "option", "per request",
                                     "per token", "us per token");
  for (const OptionCost& cost : costs) {
    absl::StrAppendFormat(&text, "%-30s  %11.2f  %9.2f  %12.1f\n", cost.name, cost.per_request,
                          cost.per_token, cost.us_per_token);
  }
  return text;
}

}  // namespace beamwright::bench
