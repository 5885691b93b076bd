// The pairs of languages that models translate, and how a request's pair is done (Find): directly,
// or by two models with a language between, English if possible (Way).
//
// Resolve finds the language that a tag means, ignoring case and "_" or "-": itself, a shorter
// beginning ("de-AT" is "de"), or the first that goes on from it ("pt" is "pt-br").
#include "server/translate/directions.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/translate/office_files.h"

namespace beamwright::translate {
namespace {

// A tag as tags are compared.
std::string Folded(absl::string_view tag) {
  std::string folded = absl::AsciiStrToLower(tag);
  std::replace(folded.begin(), folded.end(), '_', '-');
  return folded;
}

}  // namespace

std::set<std::string> Directions::Codes() const {
  std::set<std::string> codes;
  for (const Direction& direction : directions_) {
    codes.insert(direction.source);
    codes.insert(direction.target);
  }
  return codes;
}

size_t Directions::Direct(absl::string_view source, absl::string_view target) const {
  const auto found =
      std::find_if(directions_.begin(), directions_.end(), [&](const Direction& direction) {
        return direction.source == source && direction.target == target;
      });
  return static_cast<size_t>(found - directions_.begin());
}

std::vector<size_t> Directions::Way(const std::string& source, const std::string& target) const {
  const size_t none = directions_.size();
  if (const size_t direct = Direct(source, target); direct != none) {
    return {direct};
  }
  std::vector<std::string> through = {"en"};
  const std::set<std::string> codes = Codes();
  through.insert(through.end(), codes.begin(), codes.end());
  for (const std::string& third : through) {
    const size_t first = Direct(source, third);
    const size_t second = Direct(third, target);
    if (first != none && second != none) {
      return {first, second};
    }
  }
  return {};
}

std::vector<Language> Directions::Languages() const {
  const std::set<std::string> codes = Codes();
  std::vector<Language> languages;
  for (const std::string& source : codes) {
    Language language{source, {source}};
    for (const std::string& target : codes) {
      if (!Way(source, target).empty()) {
        language.targets.insert(target);
      }
    }
    languages.push_back(std::move(language));
  }
  return languages;
}

std::string Directions::Resolve(absl::string_view tag) const {
  const std::set<std::string> codes = Codes();
  const std::string folded = Folded(tag);
  for (std::string begin = folded; !begin.empty();
       begin.resize(begin.find('-') == std::string::npos ? 0 : begin.rfind('-'))) {
    for (const std::string& code : codes) {
      if (Folded(code) == begin) {
        return code;
      }
    }
  }
  for (const std::string& code : codes) {
    if (absl::StartsWith(Folded(code), folded + "-")) {
      return code;
    }
  }
  return "";
}

absl::StatusOr<Route> Directions::Find(absl::string_view source, absl::string_view target) const {
  Route route{Resolve(source), Resolve(target), {}};
  status::Faults faults;
  const std::string known = directions_.empty()
                                ? "no model that is served translates"
                                : absl::StrCat("the languages are ", absl::StrJoin(Codes(), ", "));
  for (const auto& [field, tag, code] : {std::tuple("source_language", source, &route.source),
                                         {"target_language", target, &route.target}}) {
    if (code->empty()) {
      faults.Add(field, "'", Printable(tag), "' is not supported; ", known);
    }
  }
  if (!faults.empty()) {
    return status::InvalidFields(faults);
  }
  if (route.source != route.target) {
    route.directions = Way(route.source, route.target);
    if (route.directions.empty()) {
      return status::InvalidField("target_language", "'", route.target,
                                  "' is not supported for the source language '", route.source,
                                  "': there is no model for it, nor two with a language between");
    }
  }
  return route;
}

namespace {

constexpr size_t kMostBytes = size_t{64} << 10;
// CLD2's kCLDFlagBestEffort: an answer for short texts, too.
constexpr int kBestEffort = 0x4000;

// The functions of libcld2, which has not changed since 2015; Language is an enum. Hints and chunks
// are null here.
struct Library {
  // CLD2::ExtDetectLanguageSummaryCheckUTF8
  int (*detect)(const char* bytes, int size, bool is_plain_text, const void* hints, int flags,
                int* language3, int* percent3, double* score3, void* chunks, int* text_bytes,
                bool* is_reliable, int* valid_bytes) = nullptr;
  // CLD2::LanguageCode
  const char* (*code)(int language) = nullptr;

  static const Library* Get() {
    static const Library* const library = Load();
    return library;
  }

 private:
  // Null if it is not installed, or of another kind than is known.
  static const Library* Load() {
    void* const handle = dlopen("libcld2.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return nullptr;
    }
    static Library library;
    library.detect = reinterpret_cast<decltype(library.detect)>(
        dlsym(handle,
              "_ZN4CLD233ExtDetectLanguageSummaryCheckUTF8EPKcibPKNS_8CLDHintsEiPNS_8LanguageEPiPd"
              "PSt6vectorINS_11ResultChunkESaISA_EES7_PbS7_"));
    library.code = reinterpret_cast<decltype(library.code)>(
        dlsym(handle, "_ZN4CLD212LanguageCodeENS_8LanguageE"));
    return library.detect == nullptr || library.code == nullptr ? nullptr : &library;
  }
};

// CLD2's codes that are not BCP 47's of today.
std::string TagOf(absl::string_view code) {
  constexpr std::pair<const char*, const char*> kOldCodes[] = {
      {"iw", "he"}, {"jw", "jv"}, {"no", "nb"}, {"tl", "fil"}, {"mo", "ro"}};
  for (const auto& [old, tag] : kOldCodes) {
    if (code == old) {
      return tag;
    }
  }
  return std::string(code);
}

}  // namespace

absl::StatusOr<std::vector<DetectedLanguage>> DetectLanguages(
    absl::string_view text, bool is_html,
    const std::function<std::string(absl::string_view tag)>& resolve) {
  const Library* const library = Library::Get();
  if (library == nullptr) {
    return absl::UnimplementedError(
        "finding out a language needs the library libcld2.so.0, which is not installed (Debian: "
        "apt-get install libcld2-0)");
  }
  text = text.substr(0, kMostBytes);
  while (!text.empty() &&
         !CheckUtf8(text.substr(text.size() - std::min<size_t>(4, text.size()))).ok() &&
         !CheckUtf8(text).ok()) {
    text.remove_suffix(1);  // of a character that was cut
  }
  int languages[3] = {0, 0, 0};
  int percents[3] = {0, 0, 0};
  double scores[3] = {0, 0, 0};
  int text_bytes = 0;
  int valid_bytes = 0;
  bool is_reliable = false;
  library->detect(text.data(), static_cast<int>(text.size()), !is_html, nullptr, kBestEffort,
                  languages, percents, scores, nullptr, &text_bytes, &is_reliable, &valid_bytes);
  std::vector<DetectedLanguage> detected;
  for (int i = 0; i < 3; ++i) {
    const std::string tag = TagOf(library->code(languages[i]));
    std::string language = percents[i] > 0 ? resolve(tag) : "";
    if (language.empty() && tag == "nb" && percents[i] > 0) {
      language = resolve("no");
    }
    if (!language.empty()) {
      detected.push_back({std::move(language), percents[i] * (is_reliable ? 1.0 : 0.5)});
    }
  }
  return detected;
}

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
  constexpr size_t kMostDetected = size_t{64} << 10;
  constexpr double kSure = 50;  // beyond it CLD2 is, and it means most of the text
  const bool is_html = request.format() == v1::TEXT_FORMAT_HTML ||
                       request.format() == v1::TEXT_FORMAT_XML || IsOffice(request);
  std::string all;
  for (int i = 0; i < request.texts_size() && all.size() <= kMostDetected; ++i) {
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
