// A step whose rows cannot be separated runs them one at a time, which is right and slow. The user
// who serves such a model must hear of it without asking: node, reason and where the remedy stands.
#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "include/beamwright/client.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/hanging_model.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::e2e {
namespace {

using ops::testing_tools::RunProgram;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RowByRow, IsToldEverywhere) {
  const bundle::TempFolder temp;
  WriteHangingModel(temp, "mixes/1",
                    Hangs::kForSomeSources);  // a request says how often its loop runs
  constexpr char kReason[] = "rows of Loop 'next_state' cannot be separated";
  const auto check = RunProgram({BEAMWRIGHT_GRAPH_PROGRAM, "check", temp.path() + "/mixes/1"});
  EXPECT_THAT(check.output, AllOf(HasSubstr("one at a time"), HasSubstr(kReason)));

  ServerProcess server({"--model-repository", temp.path()});
  ASSERT_GT(server.WaitForPort(), 0) << server.log();
  EXPECT_THAT(server.log(),
              AllOf(HasSubstr("a step computes one row at a time, because "), HasSubstr(kReason),
                    HasSubstr("docs/bring-your-model.md, 'Look at it'")));
  auto client = client::Client::Connect({.address = server.address()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto model = (*client)->DescribeModel("mixes", "", absl::Now() + absl::Minutes(1));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->step_batching().together());
  EXPECT_THAT(model->step_batching().reason(), HasSubstr(kReason));
  EXPECT_TRUE(model->encoder_batching().together());
  const auto models =
      RunProgram({BEAMWRIGHT_PROGRAM, "models", "mixes", "--server", server.address()});
  EXPECT_THAT(models.output,
              AllOf(HasSubstr("steps rows          one at a time, because "), HasSubstr(kReason)));
  int series = 0;
  for (const auto& [name, value] : Scrape(server.metrics_port())) {
    if (absl::StrContains(name, "beamwright_step_batching{")) {
      EXPECT_THAT(name, HasSubstr("model=\"mixes\""));
      EXPECT_EQ(value, 0);
      ++series;
    }
  }
  EXPECT_EQ(series, 1);
}

}  // namespace
}  // namespace beamwright::e2e
