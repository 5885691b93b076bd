// The pairs of languages that models translate, and how a request's pair is done (Find): directly,
// or by two models with a language between, English if possible (Way).
//
// Resolve finds the language that a tag means, ignoring case and "_" or "-": itself, a shorter
// beginning ("de-AT" is "de"), or the first that goes on from it ("pt" is "pt-br").
#include "server/translate/directions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/status/fault.h"
#include "ops/base/utf8.h"

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

}  // namespace beamwright::translate
