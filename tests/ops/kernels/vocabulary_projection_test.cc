// Scores scanned panel by panel against rows of scores that are scanned whole: the same bits, for
// random rules, in each precision, with each instruction set and for any number of threads.
#include "ops/kernels/vocabulary_projection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "ops/base/vector_isa.h"
#include "ops/kernels/column_picks.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

// What the views of a RowRules point at.
struct Rules {
  std::vector<LogitEdit> edits;
  std::vector<int32_t> allowed;
  std::vector<RankBonus> bonuses;
  std::vector<int32_t> watched;
  std::vector<float> added;
  RowRules rules;

  Rules(Random& random, int64_t vocabulary) {
    const auto token = [&] { return static_cast<int32_t>(random.Int(0, vocabulary - 1)); };
    for (int64_t i = random.Int(0, 3) * random.Int(0, 30); i > 0; --i) {
      edits.push_back({token(), static_cast<EditKind>(random.Int(0, 3)), random.Float(0.5f, 2)});
    }
    for (int64_t i = random.Int(0, 2) * random.Int(0, 40); i > 0; --i) {
      watched.push_back(token());
    }
    rules.edits = edits;
    rules.watched = watched;
    switch (random.Int(0, 9)) {
      case 7:
        for (LogitEdit& edit : edits) {
          edit.kind = random.Int(0, 1) == 0 ? EditKind::kBan : EditKind::kExclude;
        }
        [[fallthrough]];
      case 0:
        SetAllowed(random, vocabulary);
        break;
      case 1:
        rules.temperature = 0.7f;
        break;
      case 2:
        bonuses = {{token(), 1.5f, 0}};
        rules.bonuses = bonuses;
        break;
      case 3:
        rules.renormalize = false;
        for (LogitEdit& edit : edits) {
          edit.kind = random.Int(0, 5) == 0 ? edit.kind : EditKind::kBan;
        }
        break;
      case 4:
        rules.draw.kind = DrawKind::kGumbel;
        break;
      case 5:
      case 6: {
        const bool is_coarse = random.Int(0, 1) == 0;
        for (int64_t i = 0; i < vocabulary; ++i) {
          const float more = random.Float(0, 3);
          added.push_back(random.Int(0, 50) == 0 ? -std::numeric_limits<float>::infinity()
                          : is_coarse            ? std::round(more)
                                                 : more);
        }
        edits.resize(random.Int(0, 3) == 0 ? edits.size() : 0);
        rules.edits = edits;
        rules.added = added;
        break;
      }
      default:
        break;
    }
  }
  Rules(const Rules&) = delete;

  // From one token to more of them than are worth a separate product.
  void SetAllowed(Random& random, int64_t vocabulary) {
    const int64_t most = std::max<int64_t>(1, vocabulary / (random.Int(0, 3) == 0 ? 2 : 8));
    const int64_t count = random.Int(1, most);
    std::set<int32_t> tokens;
    while (static_cast<int64_t>(tokens.size()) < count) {
      tokens.insert(static_cast<int32_t>(random.Int(0, vocabulary - 1)));
    }
    allowed.assign(tokens.begin(), tokens.end());
    rules.allowed = allowed;
    rules.has_allowed = true;
  }
};

struct Problem {
  int64_t depth;
  int64_t vocabulary;
  Tensor weight;  // [vocabulary, depth]
  Tensor bias;
  Tensor hidden;

  VocabularyProjection Make(Precision precision) const {
    return VocabularyProjection(
        std::make_shared<PackedMatMul>(
            ConstMatrix<float>{weight.data<float>(), vocabulary, depth, depth}, true, precision),
        std::vector<float>(bias.data<float>(), bias.data<float>() + bias.num_elements()));
  }
  ConstMatrix<float> rows() const { return {hidden.data<float>(), hidden.dim(0), depth, depth}; }
};

bool SameFloats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Scans all rows both ways.
void ExpectScansEqual(const Problem& problem, Precision precision, int threads, Random& random) {
  const VocabularyProjection projection = problem.Make(precision);
  const ConstMatrix<float> hidden = problem.rows();
  std::vector<float> scores(static_cast<size_t>(hidden.rows * problem.vocabulary));
  projection.Scores({threads}, hidden,
                    {scores.data(), hidden.rows, problem.vocabulary, problem.vocabulary});
  std::vector<std::unique_ptr<Rules>> rules;
  std::vector<RowScan> scans(static_cast<size_t>(hidden.rows));
  std::vector<VocabularyProjection::Row> rows;
  for (size_t i = 0; i < scans.size(); ++i) {
    rules.push_back(std::make_unique<Rules>(random, problem.vocabulary));
    rows.push_back({&rules.back()->rules, static_cast<int>(random.Int(0, 12)), &scans[i],
                    absl::UnknownError("")});
  }
  VocabularyProjection::Scratch scratch;
  projection.Scan({threads}, hidden, absl::MakeSpan(rows), scratch);
  for (size_t i = 0; i < rows.size(); ++i) {
    RowScan expected;
    const absl::Status status =
        ScanRow(absl::MakeConstSpan(scores).subspan(i * static_cast<size_t>(problem.vocabulary),
                                                    static_cast<size_t>(problem.vocabulary)),
                ScoreKind::kLogits, *rows[i].rules, rows[i].k, expected);
    ASSERT_EQ(rows[i].status, status) << "row " << i;
    if (status.ok()) {
      ASSERT_EQ(scans[i].best, expected.best)
          << "row " << i << ", vocabulary " << problem.vocabulary;
      ASSERT_EQ(scans[i].log_sum_exp, expected.log_sum_exp) << "row " << i;
      ASSERT_TRUE(SameFloats(scans[i].watched, expected.watched)) << "row " << i;
    }
  }
}

class VocabularyProjectionTest : public ::testing::TestWithParam<VectorIsa> {
 protected:
  void SetUp() override {
    if (CurrentVectorIsa() != GetParam()) {
      GTEST_SKIP() << "not on this machine";
    }
  }
  const ScopedVectorIsa isa_{GetParam()};
};

TEST_P(VocabularyProjectionTest, FindsWhatAScanOfWholeRowsFinds) {
  Random random(7);
  for (const int64_t vocabulary : {1, 63, 65, 511, 512, 513, 1100}) {
    for (const int64_t num_rows : {1, 7, 130}) {
      Problem problem;
      problem.depth = random.Int(1, 40);
      problem.vocabulary = vocabulary;
      problem.weight = random.Floats({vocabulary, problem.depth});
      problem.bias = random.Floats({random.Int(0, 1) * vocabulary});
      problem.hidden = random.Floats({num_rows, problem.depth}, -3, 3);
      for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kBf16Dot,
                                        Precision::kBf16Amx, Precision::kInt8}) {
        for (const int threads : {1, 3}) {
          ExpectScansEqual(problem, precision, threads, random);
        }
      }
    }
  }
}

// 512 tokens from `first` on.
std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 512; ++i) {
    tokens.push_back(first + 2 * i);
  }
  return tokens;
}

// Scans the problem's rows under these rules and compares with scans of whole rows.
void ExpectScansOfWholeRows(const Problem& problem, const VocabularyProjection& projection,
                            absl::Span<const RowRules> rules,
                            VocabularyProjection::Scratch& scratch) {
  const auto vocabulary = static_cast<size_t>(problem.vocabulary);
  std::vector<float> scores(rules.size() * vocabulary);
  projection.Scores(
      {1}, problem.rows(),
      {scores.data(), static_cast<int64_t>(rules.size()), problem.vocabulary, problem.vocabulary});
  std::vector<RowScan> scans(rules.size());
  std::vector<VocabularyProjection::Row> rows;
  for (size_t i = 0; i < rules.size(); ++i) {
    rows.push_back({&rules[i], 3, &scans[i], absl::OkStatus()});
  }
  projection.Scan({2}, problem.rows(), absl::MakeSpan(rows), scratch);
  for (size_t i = 0; i < rules.size(); ++i) {
    RowScan expected;
    const auto line = absl::MakeConstSpan(scores).subspan(i * vocabulary, vocabulary);
    ASSERT_TRUE(ScanRow(line, ScoreKind::kLogits, rules[i], 3, expected).ok());
    EXPECT_EQ(scans[i].best, expected.best) << "row " << i;
    EXPECT_EQ(scans[i].log_sum_exp, expected.log_sum_exp) << "row " << i;
  }
}

// Rows of a request share their shortlist, which the next step brings again, perhaps elsewhere in
// memory.
TEST_P(VocabularyProjectionTest, ShortlistsThatReturnAreScannedAlike) {
  Random random(11);
  Problem problem;
  problem.depth = 40;
  problem.vocabulary = 1100;
  problem.weight = random.Floats({problem.vocabulary, problem.depth});
  problem.bias = random.Floats({problem.vocabulary});
  std::vector<int32_t> first;
  for (int32_t i = 0; i < 90; ++i) {
    first.push_back(12 * i);
  }
  std::vector<int32_t> second = first;
  second[40] += 5;
  for (const Precision precision : {Precision::kF32, Precision::kInt8}) {
    const VocabularyProjection projection = problem.Make(precision);
    VocabularyProjection::Scratch scratch;
    for (int step = 0; step < 4; ++step) {
      problem.hidden = random.Floats({9, problem.depth}, -3, 3);
      const std::vector<int32_t> lists[] = {first, second};
      std::vector<RowRules> rules(9);
      for (size_t i = 0; i < rules.size(); ++i) {
        rules[i].has_allowed = i != 4;  // one row with all tokens between the others
        rules[i].allowed = lists[(i / 2 + static_cast<size_t>(step)) % 2];
      }
      ExpectScansOfWholeRows(problem, projection, rules, scratch);
    }
  }
}

// Many equal scores: their tokens' order decides.
TEST_P(VocabularyProjectionTest, EqualScoresOfAShortlistAreInTheOrderOfTheirTokens) {
  Random random(13);
  Problem problem;
  problem.depth = 3;
  problem.vocabulary = 1400;
  problem.weight = random.Floats({problem.vocabulary, problem.depth}, -2, 2);
  problem.hidden = random.Floats({20, problem.depth}, -2, 2);
  for (Tensor* tensor : {&problem.weight, &problem.hidden}) {
    float* const values = tensor->mutable_data<float>();
    for (int64_t i = 0; i < tensor->num_elements(); ++i) {
      values[i] = std::round(values[i]);
    }
  }
  problem.bias = random.Floats({0});
  std::vector<int32_t> list;
  for (int32_t i = 0; i < 170; ++i) {
    list.push_back(8 * i + static_cast<int32_t>(random.Int(0, 7)));
  }
  const LogitEdit bans[] = {{list[3], EditKind::kBan, 0}, {1, EditKind::kExclude, 0}};
  std::vector<RowRules> rules(20);
  for (RowRules& rule : rules) {
    rule.has_allowed = true;
    rule.allowed = list;
    rule.edits = bans;
  }
  VocabularyProjection::Scratch scratch;
  ExpectScansOfWholeRows(problem, problem.Make(Precision::kF32), rules, scratch);
}

// 18 lists of 2 MiB of columns each, more than ColumnPicks holds: the last ones are computed with
// the whole product.
TEST_P(VocabularyProjectionTest, ShortlistsBeyondTheLimitAreScannedAlike) {
  Random random(12);
  Problem problem;
  problem.depth = 1024;
  problem.vocabulary = 4200;
  problem.weight = random.Floats({problem.vocabulary, problem.depth});
  problem.bias = random.Floats({problem.vocabulary});
  problem.hidden = random.Floats({18, problem.depth});
  std::vector<std::vector<int32_t>> lists;
  for (int32_t list = 0; list < 18; ++list) {
    lists.push_back(Tokens(list));
  }
  std::vector<RowRules> rules(lists.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    rules[i].has_allowed = true;
    rules[i].allowed = lists[i];
  }
  const VocabularyProjection projection = problem.Make(Precision::kF32);
  VocabularyProjection::Scratch scratch;
  ExpectScansOfWholeRows(problem, projection, rules, scratch);
}

// Many scores that differ and have one log-probability, since a large one makes their f32 coarse:
// the order is then that of the tokens.
TEST_P(VocabularyProjectionTest, TiesThatRoundingMakes) {
  Random random(8);
  for (const float largest : {0.0f, 100.0f, 3e5f}) {
    Problem problem;
    problem.depth = 3;
    problem.vocabulary = 1300;
    problem.weight = random.Floats({problem.vocabulary, problem.depth});
    problem.bias = Tensor(DType::kF32, {problem.vocabulary});
    std::fill_n(problem.bias.mutable_data<float>(), problem.vocabulary, 0.0f);
    problem.bias.mutable_data<float>()[700] = largest;
    problem.hidden = random.Floats({20, problem.depth}, -1e-3f, 1e-3f);
    for (const int threads : {1, 3}) {
      ExpectScansEqual(problem, Precision::kF32, threads, random);
    }
  }
}

// Edits may drive all that a row has beyond f32.
TEST_P(VocabularyProjectionTest, ScoresOfAnySize) {
  Random random(10);
  for (const float size : {-3.4e38f, 3.4e38f}) {
    for (const int64_t vocabulary : {1, 3, 20}) {
      Problem problem;
      problem.depth = 2;
      problem.vocabulary = vocabulary;
      problem.weight = random.Floats({vocabulary, problem.depth});
      problem.bias = Tensor(DType::kF32, {vocabulary});
      std::fill_n(problem.bias.mutable_data<float>(), vocabulary, size);
      problem.hidden = random.Floats({40, problem.depth});
      ExpectScansEqual(problem, Precision::kF32, 1, random);
    }
  }
}

TEST_P(VocabularyProjectionTest, WhatIsNoNumberConcernsItsRowAlone) {
  Random random(9);
  const float infinity = std::numeric_limits<float>::infinity();
  Problem problem;
  problem.depth = 4;
  problem.vocabulary = 700;
  problem.weight = random.Floats({problem.vocabulary, problem.depth});
  problem.bias = random.Floats({problem.vocabulary});
  problem.bias.mutable_data<float>()[3] = -infinity;  // a token that can't be chosen
  problem.hidden = random.Floats({6, problem.depth});
  problem.hidden.mutable_data<float>()[1 * 4] = std::nanf("");
  problem.hidden.mutable_data<float>()[4 * 4 + 2] = infinity;
  ExpectScansEqual(problem, Precision::kF32, 1, random);
  ExpectScansEqual(problem, Precision::kInt8, 1, random);

  const VocabularyProjection projection = problem.Make(Precision::kF32);
  const RowRules none;
  LogitEdit outside[] = {{700, EditKind::kAdd, 1}};
  RowRules wrong;
  wrong.edits = outside;
  std::vector<RowScan> scans(6);
  std::vector<VocabularyProjection::Row> rows;
  for (RowScan& scan : scans) {
    rows.push_back({rows.size() == 5 ? &wrong : &none, 3, &scan, absl::OkStatus()});
  }
  VocabularyProjection::Scratch scratch;
  projection.Scan({1}, problem.rows(), absl::MakeSpan(rows), scratch);
  for (const size_t row : {0, 2, 3}) {
    EXPECT_TRUE(rows[row].status.ok()) << rows[row].status;
    EXPECT_EQ(scans[row].best.size(), 3u);
  }
  EXPECT_EQ(rows[1].status.message(), "scores[0]: nan is not a number below infinity");
  EXPECT_FALSE(rows[4].status.ok());
  EXPECT_EQ(rows[5].status.message(), "edits: token 700 is outside [0, 700)");
}

TEST(ColumnPicksTest, ColumnsHaveTheBitsOfTheWholeProduct) {
  Random random(3);
  constexpr int64_t kDepth = 37, kColumns = 90, kRows = 5;
  const Tensor weight = random.Floats({kDepth, kColumns});
  const Tensor rows = random.Floats({kRows, kDepth});
  const std::vector<int32_t> tokens = {3, 4, 17, 64, 89};
  for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kBf16Dot,
                                    Precision::kBf16Amx, Precision::kInt8}) {
    const PackedMatMul whole({weight.data<float>(), kDepth, kColumns, kColumns}, false, precision);
    ColumnPicks picks;
    picks.BeginStep();
    const PackedMatMul* const picked = picks.Of(whole, tokens);
    ASSERT_NE(picked, nullptr);
    std::vector<float> expected(kRows * kColumns);
    std::vector<float> found(kRows * tokens.size());
    const auto width = static_cast<int64_t>(tokens.size());
    whole.Run(1, {rows.data<float>(), kRows, kDepth, kDepth}, {},
              {expected.data(), kRows, kColumns, kColumns});
    picked->Run(1, {rows.data<float>(), kRows, kDepth, kDepth}, {},
                {found.data(), kRows, width, width});
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        EXPECT_EQ(found[row * tokens.size() + i],
                  expected[row * kColumns + static_cast<size_t>(tokens[i])])
            << "precision " << static_cast<int>(precision) << " row " << row << " column " << i;
      }
    }
  }
}

TEST(ColumnPicksTest, ListsOutOfUseAreDropped) {
  Random random(4);
  const Tensor values = random.Floats({8, 2000});
  const PackedMatMul weight({values.data<float>(), 8, 2000, 2000}, false);
  ColumnPicks picks;
  picks.BeginStep();
  picks.Of(weight, Tokens(0));
  const size_t one = picks.num_bytes();
  EXPECT_GT(one, 0u);
  for (int step = 0; step < 10; ++step) {
    picks.BeginStep();
    picks.Of(weight, Tokens(1));
  }
  EXPECT_EQ(picks.num_bytes(), one);
  const PackedMatMul* const kept = picks.Of(weight, Tokens(1));
  picks.BeginStep();
  EXPECT_EQ(picks.Of(weight, Tokens(1)), kept);
}

// A list beyond the limit gets no columns; lists that have theirs keep them.
TEST(ColumnPicksTest, BytesAreLimited) {
  Random random(5);
  const Tensor values = random.Floats({1024, 2000});
  const PackedMatMul weight({values.data<float>(), 1024, 2000, 2000}, false);
  ColumnPicks picks;
  for (int step = 0; step < 2; ++step) {
    picks.BeginStep();
    for (int32_t list = 0; list < 20; ++list) {
      EXPECT_EQ(picks.Of(weight, Tokens(list)) != nullptr, list < 16) << "list " << list;
    }
  }
  EXPECT_LE(picks.num_bytes(), ColumnPicks::kMostBytes);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, VocabularyProjectionTest,
                         ::testing::Values(VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512,
                                           VectorIsa::kAmx));

}  // namespace
}  // namespace beamwright::ops
