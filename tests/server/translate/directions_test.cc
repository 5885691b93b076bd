#include "server/translate/directions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/status/fault.h"

namespace beamwright::translate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Directions& Some() {
  static const auto* const directions = new Directions({{"es", "en"},
                                                        {"en", "fr"},
                                                        {"de", "it"},
                                                        {"it", "fr"},
                                                        {"en", "it"},
                                                        {"fr", "pt-BR"},
                                                        {"es", "it"},
                                                        {"en", "fr"}});
  return *directions;
}

std::vector<size_t> Way(absl::string_view source, absl::string_view target) {
  const absl::StatusOr<Route> route = Some().Find(source, target);
  EXPECT_TRUE(route.ok()) << route.status();
  return route.ok() ? route->directions : std::vector<size_t>{99};
}

std::string FieldOf(absl::string_view source, absl::string_view target) {
  const status::Faults faults = status::FaultsOf(Some().Find(source, target).status());
  return faults.empty() ? "" : faults[0].field + ": " + faults[0].text;
}

TEST(DirectionsTest, DirectElseThroughEnglishElseThroughTheFirst) {
  EXPECT_THAT(Way("en", "fr"), ElementsAre(1));
  EXPECT_THAT(Way("es", "it"), ElementsAre(6));
  EXPECT_THAT(Way("es", "fr"), ElementsAre(0, 1));  // not through Italian
  EXPECT_THAT(Way("de", "fr"), ElementsAre(2, 3));
  EXPECT_THAT(Way("fr", "fr"), IsEmpty());
}

TEST(DirectionsTest, TagsStandForTheNearestThatIsThere) {
  EXPECT_THAT(Way("EN", "Fr"), ElementsAre(1));
  EXPECT_THAT(Way("en_GB", "fr-CA"), ElementsAre(1));
  EXPECT_THAT(Way("fr", "pt"), ElementsAre(5));
  EXPECT_THAT(Way("fr", "pt_br"), ElementsAre(5));
  EXPECT_EQ(Some().Find("fr", "pt")->target, "pt-BR");
}

TEST(DirectionsTest, ErrorsNameTheField) {
  EXPECT_THAT(FieldOf("xx", "fr"),
              HasSubstr("source_language: 'xx' is not supported; the languages "
                        "are de, en, es, fr, it, pt-BR"));
  EXPECT_THAT(FieldOf("en", "e"), HasSubstr("target_language: 'e' is not supported"));
  EXPECT_THAT(FieldOf("fr", "en"),
              HasSubstr("target_language: 'en' is not supported for the source "
                        "language 'fr'"));
  EXPECT_THAT(std::string(Directions({}).Find("en", "fr").status().message()),
              HasSubstr("no model that is served translates"));
}

TEST(DirectionsTest, LanguagesHaveAllTheirTargets) {
  std::vector<std::string> lines;
  for (const Language& language : Some().Languages()) {
    lines.push_back(language.code + ":");
    for (const std::string& target : language.targets) {
      lines.back() += " " + target;
    }
  }
  EXPECT_THAT(lines, ElementsAre("de: de fr it", "en: en fr it pt-BR", "es: en es fr it",
                                 "fr: fr pt-BR", "it: fr it pt-BR", "pt-BR: pt-BR"));
}

}  // namespace
}  // namespace beamwright::translate
