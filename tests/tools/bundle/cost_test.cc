// What `beamwright-graph cost` says of the default model.
#include "tools/bundle/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/graph_tool.h"

namespace beamwright::tools {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr char kModel[] = BEAMWRIGHT_SOURCE_DIR "/models/g2p-en";

std::string SourcesOf(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/cost_sources.txt";
  std::ofstream(path) << text;
  return path;
}

TEST(CostTest, OnePointForEachNumberInFlight) {
  CostFlags flags{.model = kModel, .sources = SourcesOf("cat\nrecurrent\n"), .beam_size = 3};
  flags.concurrency = {1, 4};
  flags.seconds = 0.001;
  std::ostringstream output;
  ASSERT_TRUE(Cost(flags, output).ok());
  EXPECT_THAT(output.str(),
              AllOf(HasSubstr("a request: 3 rows, at most "), ContainsRegex("\n +1 +[0-9.]+ "),
                    ContainsRegex("\n +4 +[0-9.]+ "),
                    ContainsRegex("beamwright capacity --threads 1 --beam-size 3 --point 1:[0-9.]+ "
                                  "--point 4:[0-9.]+ --rate")));
  // A version is taken as well, and a longer source holds more.
  flags.model = std::string(kModel) + "/1";
  flags.sources = SourcesOf("antidisestablishmentarianism\n");
  std::ostringstream longer;
  ASSERT_TRUE(Cost(flags, longer).ok());
  const auto bytes = [](const std::string& text) {
    return std::stoll(text.substr(text.find("at most ") + 8));
  };
  EXPECT_GT(bytes(longer.str()), bytes(output.str()));
}

TEST(CostTest, SaysWhatIsWrong) {
  std::ostringstream output;
  EXPECT_THAT(Cost({.model = kModel, .sources = "/nowhere"}, output).ToString(),
              HasSubstr("cannot read '/nowhere'"));
  EXPECT_THAT(Cost({.model = "/nowhere", .sources = SourcesOf("cat")}, output).ToString(),
              HasSubstr("/nowhere"));
  EXPECT_THAT(Cost({.model = kModel, .sources = SourcesOf("\n")}, output).ToString(),
              HasSubstr("has no line that is not empty"));
  const char* const arguments[] = {"beamwright-graph", "cost", kModel};
  std::ostringstream errors;
  EXPECT_EQ(RunGraphTool(3, arguments, output, errors), 2);
  EXPECT_THAT(errors.str(), HasSubstr("--sources is required"));
}

}  // namespace
}  // namespace beamwright::tools
