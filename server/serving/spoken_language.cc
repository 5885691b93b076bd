#include "server/serving/spoken_language.h"

#include <algorithm>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

// Tokens of Canary in the form of languages.
constexpr absl::string_view kNoLanguages[] = {"itn", "pnc"};

// Of <|de|> or <|yue|>; else empty.
std::string CodeOf(const engine::DecodeModel& model, int32_t id) {
  std::string text = model.target().TokenText(id);
  if (text.size() < 6 || text.size() > 7 || !absl::StartsWith(text, "<|") ||
      !absl::EndsWith(text, "|>")) {
    return "";
  }
  text = text.substr(2, text.size() - 4);
  return absl::c_all_of(text, absl::ascii_islower) && !absl::c_linear_search(kNoLanguages, text)
             ? text
             : "";
}

const google::protobuf::RepeatedField<int32_t>& PrefixIds(const engine::DecodeModel& model,
                                                          const v1::DecodeOptions& options) {
  return (options.has_target_prefix() ? options.target_prefix()
                                      : model.config().default_options().target_prefix())
      .ids()
      .ids();
}

}  // namespace

std::string LanguageOf(const engine::DecodeModel& model, const v1::DecodeOptions& options) {
  for (const int32_t id : PrefixIds(model, options)) {
    if (std::string code = CodeOf(model, id); !code.empty()) {
      return code;
    }
  }
  return "";
}

absl::Status SetLanguage(const engine::DecodeModel& model, absl::string_view code,
                         v1::DecodeOptions& options) {
  const int32_t id = model.target().TokenId(absl::StrCat("<|", code, "|>"));
  if (id < 0 || CodeOf(model, id).empty()) {
    return status::InvalidField("language", "'", code,
                                "' is no language that the model hears; it takes codes such as en");
  }
  if (!options.has_target_prefix()) {
    *options.mutable_target_prefix() = model.config().default_options().target_prefix();
  }
  const std::string before = LanguageOf(model, options);
  for (int32_t& token : *options.mutable_target_prefix()->mutable_ids()->mutable_ids()) {
    if (CodeOf(model, token) == before) {
      token = id;
    }
  }
  return absl::OkStatus();
}

bool HearsLanguage(const engine::DecodeModel& model, const v1::DecodeOptions& options) {
  const auto& prefix = PrefixIds(model, options);
  return !prefix.empty() && !CodeOf(model, prefix[0]).empty();
}

absl::StatusOr<std::shared_ptr<const engine::ResolvedOptions>> LanguageSearch(
    const engine::DecodeModel& model) {
  absl::Status status;
  auto search = model.parts().language_search.Get([&] {
    v1::DecodeOptions options;
    options.set_beam_size(1);
    for (int32_t id = 0; id < model.target_vocabulary_size(); ++id) {
      if (!CodeOf(model, id).empty()) {
        options.add_allowed_sequences()->mutable_ids()->add_ids(id);
      }
    }
    // The bundle's options have the prefix, and suppress tokens of languages.
    auto resolved = engine::ResolveWithoutDefaults(model, options);
    status = resolved.status();
    return resolved.ok() ? *std::move(resolved) : nullptr;
  });
  BW_RETURN_IF_ERROR(status);
  return search;
}

std::string LanguageOf(const engine::DecodeModel& model, const v1::Decoded& answer) {
  return answer.hypotheses().empty() || answer.hypotheses(0).tokens().empty()
             ? ""
             : CodeOf(model, answer.hypotheses(0).tokens(0));
}

}  // namespace beamwright::serving
