// Directions: from which languages to which the served models translate, directly or through a
// third language.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_DIRECTIONS_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_DIRECTIONS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::translate {

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

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_DIRECTIONS_H_
