// The runner's own parts: a comparison that lets a wrong result pass would make every suite
// worthless.
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/base/status.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/suite.h"
#include "tests/conformance/worker.h"

namespace beamwright::ops {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor Floats(std::vector<float> values) {
  return Tensor::Of<float>({static_cast<int64_t>(values.size())}, values);
}

Tensor Integers(int64_t first, int64_t second) {
  return Tensor::Of<int64_t>({2}, std::vector<int64_t>{first, second});
}

std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance = 0) {
  return std::string(Compare(actual, expected, tolerance).message());
}

TEST(Compare, TypeAndShapeMustBeTheSame) {
  EXPECT_EQ(Difference(Floats({1, 2}), Floats({1, 2})), "");
  EXPECT_THAT(Difference(Floats({1}), Tensor::Of<double>({1}, std::vector<double>{1})),
              HasSubstr("f32, not f64"));
  EXPECT_THAT(Difference(Floats({1}), Tensor::Scalar(1.0F)), HasSubstr("shape [1], not []"));
}

TEST(Compare, FloatsMayDifferByTheToleranceTimesTheLargerOfElementAndMean) {
  EXPECT_EQ(Difference(Floats({1.000009F, 100}), Floats({1, 100})), "");
  // Mean 50.5: an error of 4e-4 is within 1e-5 of it, one of 6e-4 is not.
  EXPECT_EQ(Difference(Floats({1.0004F, 100}), Floats({1, 100})), "");
  EXPECT_THAT(Difference(Floats({1.0006F, 100}), Floats({1, 100})), HasSubstr("element [0]"));
  EXPECT_THAT(Difference(Floats({1, 100.002F}), Floats({1, 100})), HasSubstr("element [1]"));
  EXPECT_EQ(Difference(Floats({1, 100.002F}), Floats({1, 100}), 1e-4), "");
  EXPECT_THAT(Difference(Floats({0, 1e-30F}), Floats({0, 0})), HasSubstr("1 of 2 differ"));
}

TEST(Compare, NanAndInfinityAreThemselvesOnly) {
  EXPECT_EQ(Difference(Floats({kNan, kInfinity}), Floats({kNan, kInfinity})), "");
  EXPECT_NE(Difference(Floats({kNan}), Floats({1})), "");
  EXPECT_NE(Difference(Floats({1}), Floats({kNan})), "");
  EXPECT_NE(Difference(Floats({3e38F}), Floats({kInfinity})), "");
  EXPECT_NE(Difference(Floats({-kInfinity}), Floats({kInfinity})), "");
}

TEST(Compare, IntegersAndBooleansAreExact) {
  const Tensor large = Integers((int64_t{1} << 60), 3);
  EXPECT_EQ(Difference(large, large), "");
  EXPECT_THAT(Difference(Integers((int64_t{1} << 60) + 1, 3), large), HasSubstr("element [0]"));
  const bool yes = true;
  const bool no = false;
  EXPECT_NE(Difference(Tensor::Scalar(yes), Tensor::Scalar(no)), "");
}

TEST(Compare, BFloat16IsStoredAsF32) {
  const Tensor third = Tensor::Scalar(ToBFloat16(1.0F / 3));
  EXPECT_EQ(Difference(third, Tensor::Scalar(1.0F / 3)), "");
  EXPECT_NE(Difference(third, Tensor::Scalar(0.4F)), "");
}

class SkipListTest : public testing::Test {
 protected:
  absl::StatusOr<SkipList> Read(const std::string& text) {
    // Tests run side by side, in several builds.
    const std::string path = absl::StrCat(testing::TempDir(), "/skips-", getpid(), ".txt");
    std::ofstream(path) << text;
    absl::StatusOr<SkipList> list = SkipList::Read(path);
    std::remove(path.c_str());
    return list;
  }
  const std::vector<Case> cases_ = {
      {.name = "softmax,axis=1", .operators = {"Parameter", "Softmax"}},
      {.name = "cast,to=f8", .operators = {"Cast"}}};
};

TEST_F(SkipListTest, MatchesOperatorsAndPatterns) {
  const SkipList list =
      *Read("# a comment\n\noperator Softmax not here\ncase cast,* no such type\n");
  EXPECT_EQ(list.ReasonFor(cases_[0]), "Softmax: not here");
  EXPECT_EQ(list.ReasonFor(cases_[1]), "no such type");
  EXPECT_EQ(list.ReasonFor({.name = "softmax", .operators = {"LogSoftmax"}}), "");
  EXPECT_THAT(list.Unused(cases_), IsEmpty());
}

TEST_F(SkipListTest, NamesLinesThatMatchNothing) {
  const SkipList list = *Read("operator Gone why\ncase cast why\n");
  EXPECT_THAT(list.Unused(cases_), ElementsAre("Gone", "cast"));
}

TEST_F(SkipListTest, KnowsOperatorsWithoutCases) {
  EXPECT_THAT(UncoveredOperators(cases_), Contains("MatMul"));
  EXPECT_THAT(UncoveredOperators(cases_), Not(Contains("SoftMax")));
  EXPECT_THAT(UncoveredOperators(cases_), Contains("Loop"));
  EXPECT_THAT(UncoveredOperators({{.operators = {"TensorIterator"}}}), Not(Contains("Loop")));
  const SkipList list = *Read("uncovered MatMul why\n");
  EXPECT_TRUE(list.ListsAsUncovered("MatMul"));
  EXPECT_FALSE(list.ListsAsUncovered("SoftMax"));
  EXPECT_THAT(list.Unused(cases_), IsEmpty());
}

TEST_F(SkipListTest, RefusesLinesWithoutReason) {
  EXPECT_THAT(Read("case one\n").status().message(), HasSubstr(".txt:1"));
  EXPECT_THAT(Read("\nsuite one why\n").status().message(), HasSubstr(".txt:2"));
  EXPECT_FALSE(SkipList::Read("/nowhere/skips.txt").ok());
}

TEST(RunInChildren, AJobThatDiesCostsOnlyItself) {
  const auto job = [](size_t i) -> absl::Status {
    if (i == 1) {
      std::raise(SIGKILL);
    }
    if (i == 3) {
      _exit(5);
    }
    return i == 2 ? Invalid("wrong") : absl::OkStatus();
  };
  const std::vector<Outcome> outcomes = RunInChildren(5, job, 60);
  ASSERT_EQ(outcomes.size(), 5U);
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_TRUE(outcomes[1].crashed);
  EXPECT_THAT(outcomes[1].error, HasSubstr("Killed"));
  EXPECT_FALSE(outcomes[2].crashed);
  EXPECT_THAT(outcomes[2].error, HasSubstr("wrong"));
  EXPECT_TRUE(outcomes[3].crashed);
  EXPECT_THAT(outcomes[3].error, HasSubstr("exit code 5"));
  EXPECT_EQ(outcomes[4].error, "");
}

}  // namespace
}  // namespace beamwright::ops
