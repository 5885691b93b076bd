// From which language to which: the language of a text, the directions of the served models, and
// the plan of a call.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_DIRECTIONS_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_DIRECTIONS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "beamwright/v1/translate.pb.h"
#include "server/serving/core.h"

namespace beamwright::translate {

// Directions: from which languages to which the served models translate, directly or through a
// third language.

// What one model translates, as its bundle says (TranslationConfig).
struct Direction {
  std::string source;
  std::string target;
};

struct Language {
  std::string code;               // as the bundles write it
  std::set<std::string> targets;  // codes of what it can be translated to, itself included
};

// A way: numbers of directions, in the order in which they are taken. Empty: source and target are
// the same language.
struct Route {
  std::string source;  // codes as the bundles write them
  std::string target;
  std::vector<size_t> directions;
};

// Immutable.
class Directions {
 public:
  // Of two directions with the same languages the first counts.
  explicit Directions(std::vector<Direction> directions) : directions_(std::move(directions)) {}

  // By code.
  std::vector<Language> Languages() const;

  // The direct way, else one through a third language: English if it has both directions, else the
  // first by code. Tags are compared without case, '_' counts as '-'; a tag that no model has
  // stands for the longest of its beginnings that one has ("en-GB" for "en"), else for the first by
  // code of the tags that begin with it ("pt" for "pt-BR"). InvalidArgument naming the field
  // source_language or target_language: a language that is not there, or one to which no way leads.
  absl::StatusOr<Route> Find(absl::string_view source, absl::string_view target) const;

  // The language that a tag stands for; empty: none.
  std::string Resolve(absl::string_view tag) const;

 private:
  // Codes of all languages.
  std::set<std::string> Codes() const;
  // The number of the direction; directions_.size() if no direction fits.
  size_t Direct(absl::string_view source, absl::string_view target) const;
  // The numbers of the directions of a way; empty if no way exists.
  std::vector<size_t> Way(const std::string& source, const std::string& target) const;

  const std::vector<Direction> directions_;
};

// Which language a text is in, by CLD2 (Compact Language Detector 2), which is loaded when a caller
// first asks: Debian's libcld2-0.

// As a request's source language: to be found out.
inline constexpr char kAuto[] = "auto";

struct DetectedLanguage {
  std::string language;  // as `resolve` writes it
  double confidence =
      0;  // the share of the text in it, in percent; half of it where CLD2 is unsure
};

// The languages of a text, the likeliest first, at most 3; empty: not known, as of digits. Reads
// the first 64 KiB. text: UTF-8. is_html: tags are no text. resolve: the name of a language that
// counts, by its BCP 47 tag; empty: it does not count. Unimplemented if the library is not there.
absl::StatusOr<std::vector<DetectedLanguage>> DetectLanguages(
    absl::string_view text, bool is_html,
    const std::function<std::string(absl::string_view tag)>& resolve);

// Call plan: what a call of Translate is to do, decided before its first sentence is decoded: the
// source language of each text, and for each source language the models that translate it.

// Most characters of a call's texts together.
inline constexpr int64_t kMaxCharacters = int64_t{1} << 20;

// Models that translate, each by its newest version, and their directions in the same order.
struct TranslationModels {
  std::vector<serving::ServedModelPtr> models;
  Directions directions;
};

// The models of `core` whose bundles have a TranslationConfig. Models on demand are among them.
TranslationModels ListTranslationModels(serving::Core& core);

// Texts of one source language, and the models that translate it one after the other.
struct LanguageGroup {
  Route route;
  std::vector<serving::ServedModelPtr> models;  // empty: the texts are in the target language
  std::vector<int> texts;                       // numbers in the request, ascending
  bool ends_part = false;  // all texts up to the last of its part are in this group or earlier ones
};

struct CallPlan {
  // Of each text; a confidence of 0: the request names the language.
  std::vector<DetectedLanguage> sources;
  DetectedLanguage source;  // of the whole call, as the response reports it
  // By part, and within a part in the order of their first texts; one at least.
  std::vector<LanguageGroup> groups;
};

// Checks the fields of a request and plans its call. Loads no model.
// Errors: InvalidArgument naming fields of TranslateRequest: a broken rule, a language that is not
// served or cannot be detected, a glossary where two models translate one after the other.
// Unavailable if a model of a route is paused or in quarantine at `now`. Of office files, whose
// parts are the texts, the caller counts the characters. in_parts: texts that follow each other
// form parts, otherwise all form one.
absl::StatusOr<CallPlan> PlanCall(serving::Core& core, const v1::TranslateRequest& request,
                                  absl::Time now, bool in_parts);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_DIRECTIONS_H_
