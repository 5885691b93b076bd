// Plans a translation call before any text is translated (PlanCall): which language each text is
// in, which models translate it, and in which parts a stream answers.
//
// 1. CheckRequest: languages are set, the glossary is complete, and the texts are not too long.
// 2. FindSources: the language that the call names, or, for "auto", the one that CLD2 finds in all
//    texts together; a text in another language counts if CLD2 is sure of it.
// 3. Texts of the same language form a group with a route of one or two models (Directions::Find,
//    FindModels). A stream's texts are divided into parts, the first ones short, so that it begins
//    early.
//
// All models are checked here (loaded or loadable, not quarantined), so that a call fails as a
// whole before it has cost anything.
#include "server/translate/call_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/translate/office_package.h"

namespace beamwright::translate {
namespace {

// Bytes of a stream's parts: the first parts are short, so that it begins early; at the end of a
// part the engine is less busy, so that few parts are better.
constexpr size_t kLeastPartBytes = size_t{1} << 10;
constexpr size_t kMostPartBytes = size_t{64} << 10;

bool IsOffice(const v1::TranslateRequest& request) {
  return OfficeKindOf(request.format()) != OfficeKind::kNone;
}

absl::Status CheckRequest(const v1::TranslateRequest& request) {
  status::Faults faults;
  bundle::CheckRules(request, "", faults);
  for (const auto& [field, value] : {std::pair("source_language", &request.source_language()),
                                     {"target_language", &request.target_language()}}) {
    if (value->empty()) {
      faults.Add(field, "is not set");
    }
  }
  for (int i = 0; i < request.glossary_size(); ++i) {
    if (request.glossary(i).source().empty() || request.glossary(i).target().empty()) {
      faults.Add(absl::StrCat("glossary[", i, "]"), "has an empty source or target");
    }
  }
  if (request.texts().empty()) {
    faults.Add("texts", "is empty; there is nothing to translate");
  }
  int64_t characters = 0;
  for (const std::string& text : request.texts()) {
    characters += CountCharacters(text);
  }
  if (characters > kMaxCharacters && !IsOffice(request)) {  // most of an office file is markup
    faults.Add("texts", "have ", characters, " characters; at most ", kMaxCharacters,
               " are allowed in a call");
  }
  return status::OkOrInvalid(faults);
}

// Sets the source of each text and of the whole call; of the call only where it is detected. The
// texts together decide; a text in another language that is served counts where CLD2 is sure.
absl::Status FindSources(const Directions& directions, const v1::TranslateRequest& request,
                         CallPlan& plan) {
  const auto num_texts = static_cast<size_t>(request.texts_size());
  if (!absl::EqualsIgnoreCase(request.source_language(), kAuto)) {
    plan.sources.assign(num_texts, {request.source_language(), 0});
    return absl::OkStatus();
  }
  constexpr size_t kMostBytes = size_t{64} << 10;
  constexpr double kSure = 50;  // beyond it CLD2 is, and it means most of the text
  const bool is_html = request.format() == v1::TEXT_FORMAT_HTML ||
                       request.format() == v1::TEXT_FORMAT_XML || IsOffice(request);
  std::string all;
  for (int i = 0; i < request.texts_size() && all.size() <= kMostBytes; ++i) {
    absl::StrAppend(&all, request.texts(i), "\n");
  }
  const auto resolve = [&](absl::string_view tag) { return directions.Resolve(tag); };
  auto detected = DetectLanguages(all, is_html, resolve);
  if (!detected.ok()) {
    return status::InvalidField("source_language", detected.status().message());
  }
  if (detected->empty()) {
    return status::InvalidField("source_language",
                                "could not be found out: the texts seem to be in no language that "
                                "is served; name the language");
  }
  plan.source = (*detected)[0];
  plan.sources.assign(num_texts, plan.source);
  for (int i = 0; i < request.texts_size() && num_texts > 1; ++i) {
    detected = DetectLanguages(request.texts(i), is_html, resolve);
    if (detected.ok() && !detected->empty() && (*detected)[0].confidence > kSure &&
        directions.Find((*detected)[0].language, request.target_language()).ok()) {
      plan.sources[static_cast<size_t>(i)] = (*detected)[0];
    }
  }
  return absl::OkStatus();
}

absl::Status FindModels(serving::Core& core, const TranslationModels& served,
                        const v1::TranslateRequest& request, absl::Time now, LanguageGroup& group) {
  for (const size_t number : group.route.directions) {
    group.models.push_back(served.models[number]);
    BW_RETURN_IF_ERROR(group.models.back()->CheckPause(now));
    if (const serving::ModelPtr model = group.models.back()->model()) {
      BW_RETURN_IF_ERROR(core.quarantine().Check(*model, now));
    }
  }
  if (group.models.size() > 1 && !request.glossary().empty()) {
    return status::InvalidField("glossary", "needs a model that translates from ",
                                group.route.source, " to ", group.route.target, " directly");
  }
  return absl::OkStatus();
}

}  // namespace

TranslationModels ListTranslationModels(serving::Core& core) {
  std::vector<serving::ServedModelPtr> models;
  std::vector<Direction> directions;
  for (serving::ServedModelPtr& model :
       core.models().AllListed()) {  // by name, the newest version first
    const v1::TranslationConfig& translation = model->config().translation();
    const bool is_newest = models.empty() || models.back()->name() != model->name();
    if (model->config().has_translation() && is_newest) {
      directions.push_back({translation.source_language(), translation.target_language()});
      models.push_back(std::move(model));
    }
  }
  return {std::move(models), Directions(std::move(directions))};
}

absl::StatusOr<CallPlan> PlanCall(serving::Core& core, const v1::TranslateRequest& request,
                                  absl::Time now, bool in_parts) {
  BW_RETURN_IF_ERROR(CheckRequest(request));
  const TranslationModels served = ListTranslationModels(core);
  CallPlan plan;
  BW_RETURN_IF_ERROR(FindSources(served.directions, request, plan));
  std::map<std::string, size_t> groups;  // by language
  size_t part_bytes = 0;
  size_t most_bytes = in_parts ? kLeastPartBytes : std::numeric_limits<size_t>::max();
  for (int i = 0; i < request.texts_size(); ++i) {
    if (part_bytes >= most_bytes) {
      plan.groups.back().ends_part = true;
      groups.clear();
      part_bytes = 0;
      most_bytes = std::min(most_bytes * 2, kMostPartBytes);
    }
    part_bytes += request.texts(i).size();
    const std::string& language = plan.sources[static_cast<size_t>(i)].language;
    const auto [found, is_new] = groups.try_emplace(language, plan.groups.size());
    if (is_new) {
      BW_ASSIGN_OR_RETURN(Route route, served.directions.Find(language, request.target_language()));
      plan.groups.push_back({std::move(route), {}, {}, false});
      BW_RETURN_IF_ERROR(FindModels(core, served, request, now, plan.groups.back()));
    }
    plan.groups[found->second].texts.push_back(i);
  }
  plan.groups.back().ends_part = true;
  if (plan.source.language.empty()) {
    plan.source.language = plan.groups[0].route.source;
  }
  return plan;
}

}  // namespace beamwright::translate
