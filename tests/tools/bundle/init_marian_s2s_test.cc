// What `beamwright-graph init` makes of Marian's models of the types s2s and nematus answers as the
// formulas do in plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "include/beamwright/engine.h"
#include "tests/support/marian_model.h"
#include "tests/tools/graph/shell.h"
#include "tools/bundle/check.h"
#include "tools/bundle/init.h"

namespace beamwright::tools {
namespace {

using ops::testing_tools::TempPath;
using ops::testing_tools::WriteFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::MarianBin;
using testing_support::MarianItems;
using testing_support::MarianMatrix;
using testing_support::MarianModel;

constexpr int kTokens = 30;
constexpr int kWidth = 10;
constexpr int kState = 12;

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

constexpr char kOptions[] =
    "dim-emb: 10\ndim-rnn: 12\ndim-vocabs:\n  - 30\n  - 30\nenc-cell: gru\ndec-cell: gru\n"
    "enc-type: bidirectional\nenc-depth: 1\ndec-depth: 1\nenc-cell-depth: 1\n"
    "dec-cell-base-depth: 2\ndec-cell-high-depth: 1\nskip: false\nlayer-normalization: false\n"
    "transformer-heads: 8\ntransformer-ffn-activation: swish\ntied-embeddings: false\n";

MarianModel RandomS2s(unsigned seed) {
  MarianModel model;
  model.other_options = absl::StrCat("type: s2s\n", kOptions);
  std::mt19937 random(seed);
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns, double size) {
    MarianMatrix& matrix = model.arrays[name];
    matrix = {rows, columns, std::vector<float>(static_cast<size_t>(rows * columns))};
    for (float& value : matrix.values) {
      value = static_cast<float>(size * (static_cast<double>(random()) / 2147483648.0 - 1));
    }
  };
  const auto cell = [&](const std::string& name, int64_t depth) {
    for (const auto& [suffix, columns] : {std::pair("", 2 * kState), {"x", kState}}) {
      add(name + "_W" + suffix, depth, columns, 1);
      add(name + "_U" + suffix, kState, columns, 0.8);
      add(name + "_b" + suffix, 1, columns, 0.5);
    }
  };
  add("encoder_Wemb", kTokens, kWidth, 1);
  add("decoder_Wemb", kTokens, kWidth, 1.5);
  cell("encoder_bi", kWidth);
  cell("encoder_bi_r", kWidth);
  cell("decoder_cell1", kWidth);
  cell("decoder_cell2", 2 * kState);
  add("decoder_ff_state_W", 2 * kState, kState, 1);
  add("decoder_ff_state_b", 1, kState, 0.5);
  add("decoder_W_comb_att", kState, 2 * kState, 1);
  add("decoder_Wc_att", 2 * kState, 2 * kState, 1);
  add("decoder_b_att", 1, 2 * kState, 0.5);
  add("decoder_U_att", 2 * kState, 1, 2);
  const int64_t depths[] = {kWidth, kState, 2 * kState};
  for (int i = 0; i < 3; ++i) {
    add(absl::StrCat("decoder_ff_logit_l1_W", i), depths[i], kWidth, 1);
    add(absl::StrCat("decoder_ff_logit_l1_b", i), 1, kWidth, 0.3);
  }
  add("decoder_ff_logit_l2_Wt", kTokens, kWidth, 2);
  add("decoder_ff_logit_l2_b", 1, kTokens, 0.5);
  return model;
}

// The formulas once more, in doubles.
class Reference {
 public:
  explicit Reference(const MarianModel& model) : arrays_(model.arrays) {}

  std::pair<std::vector<int32_t>, double> Greedy(const std::vector<int32_t>& source) const {
    const Rows memory = Encode(source);
    Vector mean(2 * kState);
    for (const Vector& row : memory) {
      mean = Sum(mean, row);
    }
    for (double& value : mean) {
      value /= static_cast<double>(memory.size());
    }
    Vector state = Tanh(Sum(Times(mean, "decoder_ff_state_W"), Row("decoder_ff_state_b")));
    std::vector<int32_t> tokens;
    double log_prob = 0;
    Vector x(kWidth);
    while (tokens.size() < 2 * source.size() + 4 && (tokens.empty() || tokens.back() != 0)) {
      const Vector logits = Step(memory, x, state);
      double sum = 0;
      int32_t best = 0;
      for (int32_t id = 0; id < kTokens; ++id) {
        sum += std::exp(logits[static_cast<size_t>(id)]);
        best = id != 1 && logits[static_cast<size_t>(id)] > logits[static_cast<size_t>(best)]
                   ? id
                   : best;
      }
      log_prob += logits[static_cast<size_t>(best)] - std::log(sum);
      tokens.push_back(best);
      x = Row("decoder_Wemb", best);
    }
    return {tokens, log_prob};
  }

 private:
  static Vector Sum(Vector a, const Vector& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] += b[i];
    }
    return a;
  }
  static Vector Tanh(Vector x) {
    for (double& value : x) {
      value = std::tanh(value);
    }
    return x;
  }
  Vector Row(const std::string& name, int64_t row = 0) const {
    const MarianMatrix& matrix = arrays_.at(name);
    const auto begin = matrix.values.begin() + row * matrix.columns;
    return {begin, begin + matrix.columns};
  }
  Vector Times(const Vector& x, const std::string& name) const {
    const MarianMatrix& matrix = arrays_.at(name);
    Vector y(static_cast<size_t>(matrix.columns));
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t k = 0; k < y.size(); ++k) {
        y[k] += x[i] * static_cast<double>(matrix.values[i * y.size() + k]);
      }
    }
    return y;
  }
  Vector Cell(const std::string& name, const Vector& x, const Vector& state, bool is_last) const {
    const Vector gates =
        Sum(Sum(Times(x, name + "_W"), Times(state, name + "_U")), Row(name + "_b"));
    const Vector input = Times(x, name + "_Wx");
    const Vector kept = Times(state, name + "_Ux");
    const Vector bias = Row(name + "_bx");
    Vector next(kState);
    for (size_t i = 0; i < next.size(); ++i) {
      const double reset = 1 / (1 + std::exp(-gates[i]));
      const double update = 1 / (1 + std::exp(-gates[kState + i]));
      const double candidate = is_last ? std::tanh(input[i] + reset * (kept[i] + bias[i]))
                                       : std::tanh(input[i] + reset * kept[i] + bias[i]);
      next[i] = (1 - update) * candidate + update * state[i];
    }
    return next;
  }
  Rows Encode(const std::vector<int32_t>& source) const {
    Rows memory(source.size());
    Vector state(kState);
    for (size_t i = 0; i < source.size(); ++i) {
      memory[i] = state = Cell("encoder_bi", Row("encoder_Wemb", source[i]), state, false);
    }
    state.assign(kState, 0);
    for (size_t i = source.size(); i-- > 0;) {
      state = Cell("encoder_bi_r", Row("encoder_Wemb", source[i]), state, false);
      memory[i].insert(memory[i].end(), state.begin(), state.end());
    }
    return memory;
  }
  Vector Step(const Rows& memory, const Vector& x, Vector& state) const {
    const Vector query = Cell("decoder_cell1", x, state, false);
    const Vector wanted = Sum(Times(query, "decoder_W_comb_att"), Row("decoder_b_att"));
    Vector context(2 * kState);
    double sum = 0;
    for (const Vector& row : memory) {
      const double share =
          std::exp(Times(Tanh(Sum(Times(row, "decoder_Wc_att"), wanted)), "decoder_U_att")[0]);
      sum += share;
      for (size_t i = 0; i < context.size(); ++i) {
        context[i] += share * row[i];
      }
    }
    for (double& value : context) {
      value /= sum;
    }
    state = Cell("decoder_cell2", context, query, true);
    Vector y(kWidth);
    const Vector* const parts[] = {&x, &state, &context};
    for (int i = 0; i < 3; ++i) {
      y = Sum(Sum(y, Times(*parts[i], absl::StrCat("decoder_ff_logit_l1_W", i))),
              Row(absl::StrCat("decoder_ff_logit_l1_b", i)));
    }
    y = Tanh(y);
    Vector logits = Row("decoder_ff_logit_l2_b");
    for (size_t id = 0; id < logits.size(); ++id) {
      const Vector row = Row("decoder_ff_logit_l2_Wt", static_cast<int64_t>(id));
      for (size_t i = 0; i < y.size(); ++i) {
        logits[id] += row[i] * y[i];
      }
    }
    return logits;
  }

  const std::map<std::string, MarianMatrix>& arrays_;
};

// The same model as Marian writes those of the type nematus.
MarianModel AsNematus(const MarianModel& model) {
  std::map<std::string, std::string> names = {{"encoder_Wemb", "Wemb"},
                                              {"decoder_Wemb", "Wemb_dec"},
                                              {"decoder_ff_state_W", "ff_state_W"},
                                              {"decoder_ff_state_b", "ff_state_b"},
                                              {"decoder_ff_logit_l2_b", "ff_logit_b"},
                                              {"decoder_cell2_W", "decoder_Wc"},
                                              {"decoder_cell2_Wx", "decoder_Wcx"},
                                              {"decoder_cell2_U", "decoder_U_nl"},
                                              {"decoder_cell2_Ux", "decoder_Ux_nl"},
                                              {"decoder_cell2_b", "decoder_b_nl"},
                                              {"decoder_cell2_bx", "decoder_bx_nl"}};
  const char* const parts[] = {"prev", "lstm", "ctx"};
  for (int i = 0; i < 3; ++i) {
    for (const char* which : {"W", "b"}) {
      names[absl::StrCat("decoder_ff_logit_l1_", which, i)] =
          absl::StrCat("ff_logit_", parts[i], "_", which);
    }
  }
  for (const auto& [from, to] : {std::pair("encoder_bi_r_", "encoder_r_"),
                                 {"encoder_bi_", "encoder_"},
                                 {"decoder_cell1_", "decoder_"}}) {
    for (const char* which : {"W", "Wx", "U", "Ux", "b", "bx"}) {
      names[absl::StrCat(from, which)] = absl::StrCat(to, which);
    }
  }
  MarianModel renamed = model;
  renamed.arrays.clear();
  for (const auto& [name, matrix] : model.arrays) {
    const auto found = names.find(name);
    renamed.arrays[found == names.end() ? name : found->second] = matrix;
  }
  renamed.arrays["decoder_c_tt"] = {1, 0, {}};
  renamed.other_options = absl::StrReplaceAll(absl::StrCat("type: nematus\n", kOptions),
                                              {{": gru\n", ": gru-nematus\n"}});
  return renamed;
}

// The error, empty on success.
std::string Init(const MarianModel& model, const std::string& out) {
  std::string words = "</s>\n<unk>\n";
  for (int id = 2; id < kTokens; ++id) {
    absl::StrAppend(&words, "w", id, "\n");
  }
  InitOptions options;
  options.source_vocab = options.target_vocab = TempPath("s2s-vocab");
  options.decoder = TempPath("s2s-model.bin");
  options.out = out;
  WriteFile(options.source_vocab, words);
  WriteFile(options.decoder, MarianBin(MarianItems(model, false)));
  std::ostringstream output;
  return std::string(InitBundle(options, output).message());
}

TEST(InitMarianS2s, AnswersAreThoseOfTheFormulas) {
  const auto engine = *engine::Engine::Start({2, 64, 1000});
  const MarianModel s2s = RandomS2s(3);
  int number = 0;
  for (const MarianModel& model : {s2s, AsNematus(s2s)}) {
    const std::string bundle = TempPath(absl::StrCat("s2s-bundle", ++number));
    ASSERT_EQ(Init(model, bundle), "");
    const auto served = TryBundle(bundle, "");
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_TRUE((*served)->steps_apart().empty()) << (*served)->steps_apart();
    std::mt19937 random(4);
    std::set<std::vector<int32_t>> different;
    for (int i = 0; i < 20; ++i) {
      std::vector<int32_t> source;
      std::vector<std::string> words;
      for (uint32_t k = 1 + random() % 9; k > 0; --k) {
        source.push_back(static_cast<int32_t>(2 + random() % (kTokens - 2)));
        words.push_back(absl::StrCat("w", source.back()));
      }
      source.push_back(0);
      v1::Source request;
      request.set_text(absl::StrJoin(words, " "));
      const auto decoded = engine->DecodeAndWait(*served, request, {});
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      const auto [tokens, log_prob] = Reference(s2s).Greedy(source);
      EXPECT_NEAR(decoded->hypotheses(0).log_prob(), log_prob, 1e-4);
      const auto& answer = decoded->hypotheses(0).tokens();
      EXPECT_EQ(std::vector<int32_t>(answer.begin(), answer.end()), tokens);
      different.insert(tokens);
    }
    EXPECT_GT(different.size(), 10u);
  }
}

TEST(InitMarianS2s, WhatIsNotImplementedOrMissingIsNamed) {
  MarianModel model = RandomS2s(3);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"dec-depth: 1", "dec-depth: 2"},
           {"enc-depth: 1", "enc-depth: 4"},
           {"enc-type: bidirectional", "enc-type: alternating"},
           {"enc-cell: gru", "enc-cell: lstm"},
           {"dec-cell-base-depth: 2", "dec-cell-base-depth: 4"},
           {"skip: false", "skip: true"},
           {"layer-normalization: false", "layer-normalization: true"}}) {
    MarianModel changed = model;
    changed.other_options = absl::StrReplaceAll(model.other_options, {{from, to}});
    EXPECT_THAT(Init(changed, TempPath("s2s-none")),
                HasSubstr(absl::StrCat("option '", from.substr(0, from.find(':')), "' is '")));
  }
  for (const char* name : {"encoder_bi_r_Ux", "decoder_cell2_bx", "decoder_U_att"}) {
    MarianModel changed = model;
    changed.arrays.erase(name);
    EXPECT_THAT(Init(changed, TempPath("s2s-none")), AllOf(HasSubstr(name), HasSubstr("missing")));
  }
  // Nothing is allocated by what an option claims.
  MarianModel changed = model;
  changed.other_options =
      absl::StrReplaceAll(model.other_options, {{"dim-rnn: 12", "dim-rnn: 65536"}});
  EXPECT_THAT(Init(changed, TempPath("s2s-none")), HasSubstr("has shape"));
}

}  // namespace
}  // namespace beamwright::tools
