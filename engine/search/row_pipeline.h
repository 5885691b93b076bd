// RowPipeline: the processors of one request at work. It keeps the history and the processors'
// states of each live row and makes the rules of the next step.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_ROW_PIPELINE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_ROW_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/search/options.h"
#include "engine/search/processor.h"

namespace beamwright::search {

// Movable, not copyable. One thread at a time. Steps allocate only while histories grow.
class RowPipeline {
 public:
  // Starts with one row without tokens. The options must be valid.
  explicit RowPipeline(const SearchOptions& options);

  RowPipeline(RowPipeline&&) = default;
  RowPipeline& operator=(RowPipeline&&) = default;

  // Row i now continues row parents[i] of before with tokens[i].
  void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens);

  // Makes the next step's rules, one per row: those of the processors, or (plain) none but the bans
  // that hold always. num_generated: tokens of each row behind the target prefix. The caller may
  // add what it watches and draws. Views until the next call of a member that is not const.
  absl::Span<RowRules> MakeRules(int num_generated, bool plain);

  // Of the live rows, as the processors define them, summed over all processors.
  double RankOffset(int row) const;
  double Reward(int row, int32_t token, float log_prob) const;
  int BankAfter(int row, int32_t token) const;
  void AddBankTokens(int row, std::vector<int32_t>& tokens) const;
  bool MayBeCut(int row) const;
  // Whether the row ends with this token, though it is no end token.
  bool Stops(int row, int32_t token) const;
  // True if any processor gives rewards; then max_gain bounds log_prob + Reward of every token.
  bool gives_rewards() const { return gives_rewards_; }
  double max_gain() const { return max_gain_; }
  // The options that keep cut hypotheses out of the answer, for a message.
  std::string CuttingOptions(int row) const;

  // The options that mask tokens in this step, for a message: "min_length, suppress_tokens".
  // Empty: none.
  std::string MaskingOptions() const;

 private:
  struct Row {
    std::vector<int32_t> tokens;
    std::vector<int64_t> states;  // one per processor
  };

  int64_t StateOf(int row, size_t processor) const;
  void Fill(const Row& row, int num_generated, bool plain, RuleBuffer& buffer);

  std::vector<int32_t> bans_;  // hold always
  bool renormalize_;
  std::vector<std::unique_ptr<const Processor>> processors_;
  bool gives_rewards_ = false;
  bool may_stop_ = false;
  double max_gain_ = 0;
  bool depends_on_row_ = false;  // else one buffer serves all rows, and no histories are kept
  std::vector<bool> masks_;      // one per processor: it masks a token in this step

  size_t num_rows_ = 1;
  std::vector<Row> rows_;  // the first num_rows_ are live; the others keep their memory
  std::vector<Row> next_rows_;
  std::vector<RuleBuffer> buffers_;
  std::vector<RowRules> rules_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_ROW_PIPELINE_H_
