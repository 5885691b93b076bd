// Call plan: what a call of Translate is to do, decided before its first sentence is decoded: the
// source language of each text, and for each source language the models that translate it.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_CALL_PLAN_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_CALL_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/translate.pb.h"
#include "server/serving/core.h"
#include "server/translate/detect.h"
#include "server/translate/directions.h"

namespace beamwright::translate {

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

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_CALL_PLAN_H_
