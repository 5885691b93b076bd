// The table bundle with every addition: an ensemble of tables, a recurrent language model
// that is a table too, an n-gram model, CTC scores and a lexical table. What each of them says of a
// hypothesis is written down here a second time, as plainly as can be.
#ifndef BEAMWRIGHT_TESTS_ENGINE_FUSED_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_FUSED_BUNDLE_H_

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine_testing {

inline constexpr int kBlank = 0;  // the begin token's column, which no text needs
inline constexpr int kSourceIds = 50;

struct FusedOptions {
  int num_members = 0;  // with the model's main decoder: the first with a separate encoder
  v1::EnsembleMean mean = v1::ENSEMBLE_MEAN_LOG_PROBS;
};

inline const std::vector<float>& OwnTable() {
  static const auto* const table = new std::vector<float>(RandomTable(41));
  return *table;
}
inline std::vector<float> MemberTable(int member) { return RandomTable(51 + member); }
inline std::vector<float> LanguageTable() { return RandomTable(61); }
// Probabilities of CTC columns behind each source id, [kSourceIds, kVocabulary].
inline std::vector<float> CtcTable() {
  std::vector<float> table = RandomTable(71);  // of log-probabilities, 97 lines
  table.resize(kSourceIds * kVocabulary);
  for (float& value : table) {
    value = std::exp(value);
  }
  return table;
}

// A bigram model over the ids 1 to 5; 1 is the end token.
inline std::string Arpa() {
  return "\\data\\\nngram 1=7\nngram 2=4\n\\1-grams:\n-99 <s> -0.5\n-1 </s>\n-0.5 2 -0.25\n"
         "-0.75 3\n-1.25 4 0.125\n-2 5\n-1.5 <unk>\n\\2-grams:\n-0.25 <s> 2\n-0.125 2 3\n"
         "-0.5 4 4\n-0.0625 2 </s>\n\\end\\\n";
}

// Decimal logarithm, by the file above.
inline double Log10Bigram(int32_t before, int32_t token) {  // before -1: <s>
  if (before == -1 && token == 2) return -0.25;
  if (before == 2 && token == 3) return -0.125;
  if (before == 4 && token == 4) return -0.5;
  if (before == 2 && token == 1) return -0.0625;
  const double backoff = before == -1 ? -0.5 : before == 2 ? -0.25 : before == 4 ? 0.125 : 0;
  const double unigrams[] = {-1.5, -1, -0.5, -0.75, -1.25, -2, -1.5};
  return backoff + unigrams[token];
}

inline ops::Graph FusedEncoder() {
  testing_support::GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto sum = graph.Add("ReduceSum", {source, graph.Ints({1})}, {{"keep_dims", false}});
  graph.Result("first_state", graph.Add("FloorMod", {sum, graph.Int(kStates)}));
  const auto lines = graph.Constant(ops::Tensor::Of<float>({kSourceIds, kVocabulary}, CtcTable()));
  graph.Result("ctc", graph.Add("Gather", {lines, source, graph.Int(0)}));
  return graph.Build();
}

inline bundle::Bundle FusedBundle(const FusedOptions& options) {
  bundle::Bundle bundle = TableBundle(OwnTable(), {});
  bundle.encoder = FusedEncoder();
  for (int member = 0; member < options.num_members; ++member) {
    v1::EnsembleConfig& ensemble = *bundle.config.mutable_ensemble();
    ensemble.set_mean(options.mean);
    v1::EnsembleMember& config = *ensemble.add_members();
    *config.mutable_decoder() = bundle.config.decoder();
    config.set_weight(static_cast<float>(member + 2));
    bundle::Bundle::Member& graphs = bundle.members.emplace_back();
    if (member == 0) {
      config.mutable_encoder();
      graphs.encoder = EncoderGraph(false);
    }
    graphs.decoder = StepGraph(MemberTable(member), {});
  }
  v1::ScorerConfig& lm = *bundle.config.add_scorers();
  lm.set_name("lm");
  *lm.mutable_language_model() = bundle.config.decoder();
  lm.mutable_language_model()->mutable_states(0)->set_constant(0);
  bundle.language_models["lm"] = StepGraph(LanguageTable(), {});
  v1::ScorerConfig& ngram = *bundle.config.add_scorers();
  ngram.set_name("ngram");
  ngram.mutable_ngram()->set_file("words.arpa");
  bundle.ngrams["ngram"] = Arpa();
  v1::ScorerConfig& ctc = *bundle.config.add_scorers();
  ctc.set_name("ctc");
  ctc.mutable_ctc()->set_encoder_output("ctc");
  ctc.mutable_ctc()->set_blank(kBlank);
  ctc.mutable_ctc()->set_kind(v1::LOGITS_KIND_PROBS);
  v1::LexicalTableConfig& table = *bundle.config.mutable_lexical_table();
  table.set_file("lex.txt");
  table.set_num_frequent(1);
  table.set_max_per_token(2);
  bundle.lexical_table = "3 2 0.5\n3 4 0.25\n3 5 0.125\n7 6\n7 6\n8 2\n";
  return bundle;
}

// Log-probabilities behind `tokens` of a table that starts from a state.
inline std::vector<double> Line(const std::vector<float>& table, int64_t first_state,
                                const std::vector<int32_t>& tokens) {
  int64_t state = NextState(first_state, kBegin);
  for (const int32_t token : tokens) {
    state = NextState(state, token);
  }
  const auto at = static_cast<int64_t>(state) * kVocabulary;
  return {table.begin() + at, table.begin() + at + kVocabulary};
}

// Of the model's decoder and its members together.
inline std::vector<double> EnsembleLine(const FusedOptions& options, int64_t first_state,
                                        const std::vector<int32_t>& tokens) {
  if (options.num_members == 0) {
    return Line(OwnTable(), first_state, tokens);
  }
  std::vector<double> mean(kVocabulary, 0);
  double weights = 0;
  for (int member = -1; member < options.num_members; ++member) {
    const double weight = member < 0 ? 1 : member + 2;
    weights += weight;
    const auto line = Line(member < 0 ? OwnTable() : MemberTable(member), first_state, tokens);
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] += weight * (options.mean == v1::ENSEMBLE_MEAN_PROBS ? std::exp(line[i]) : line[i]);
    }
  }
  double sum = 0;
  for (double& value : mean) {
    value = options.mean == v1::ENSEMBLE_MEAN_PROBS ? value / weights : std::exp(value / weights);
    sum += value;
  }
  for (double& value : mean) {
    value = std::log(value / sum);
  }
  return mean;
}

// The probability of all CTC alignments of `source` whose text begins with `tokens`, or is
// `tokens`.
inline double CtcProb(const std::vector<int32_t>& source, const std::vector<int32_t>& tokens,
                      bool exactly) {
  const std::vector<float> table = CtcTable();
  double total = 0;
  const std::function<void(size_t, int32_t, std::vector<int32_t>, double)> visit =
      [&](size_t frame, int32_t last, std::vector<int32_t> text, double prob) {
        if (frame == source.size()) {
          const bool begins = text.size() >= tokens.size() &&
                              std::equal(tokens.begin(), tokens.end(), text.begin());
          total += begins && (!exactly || text.size() == tokens.size()) ? prob : 0;
          return;
        }
        for (int32_t column = 0; column < kVocabulary; ++column) {
          std::vector<int32_t> next = text;
          if (column != kBlank && column != last) {
            next.push_back(column);
          }
          visit(frame + 1, column, next,
                prob * double{table[static_cast<size_t>(source[frame] * kVocabulary + column)]});
        }
      };
  visit(0, kBlank, {}, 1);
  return total;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_FUSED_BUNDLE_H_
