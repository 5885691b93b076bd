// VocabularyProjection: the last product of a step and the scan of its scores in one. Panels of
// scores are looked at while they are in the cache: candidates, log-sum-exp, edited and watched
// tokens are taken from them, and a whole row is written only for rules that need it (an allowed
// set, temperature, bonuses, draws, log-probabilities that are not renormalised; what is added to
// all tokens together with edits). Of rows whose allowed set is a small part of the vocabulary, a
// shortlist, only the scores of that set are computed. What comes out is what ScanRow
// (ops/kernels/topk.h) finds in the row, bit for bit; a score that is no number is an error where
// it is computed.
#ifndef BEAMWRIGHT_OPS_KERNELS_VOCABULARY_PROJECTION_H_
#define BEAMWRIGHT_OPS_KERNELS_VOCABULARY_PROJECTION_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "ops/graph/operator.h"
#include "ops/kernels/column_picks.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/kernels/panel_scan.h"
#include "ops/kernels/topk.h"

namespace beamwright::ops {

// Thread-safe.
class VocabularyProjection {
 public:
  // A row's scan: arguments and results of ScanRow.
  struct Row {
    const RowRules* rules = nullptr;
    int k = 0;
    RowScan* result = nullptr;
    absl::Status status;
  };

  // Memory of scans. Keep one from step to step, so that steady steps allocate nothing.
  class Scratch {
   private:
    friend class VocabularyProjection;
    // What one chunk of panels found in one row.
    struct Part {
      std::vector<TokenScore> best;
      bool bad = false;  // a score is NaN or +infinity
    };
    // Rows that stand one behind the other and share an allowed set.
    struct Run {
      int64_t first_row = 0;
      int64_t num_rows = 0;
      const PackedMatMul* columns = nullptr;  // of that set; null: these rows have none
    };
    StepProfile* profile = nullptr;  // of the scan under way
    ColumnPicks picks;
    std::vector<Run> runs;
    PackedMatMul::Activations activations;
    std::vector<int64_t> full_line;     // by row: its line of `full`; -1: none
    std::vector<float> largest_added;   // by row: the size of what its rules add
    std::vector<bool> is_whole;         // by row: ScanRow is to read that line
    std::vector<float> full;            // whole rows of scores
    std::vector<Part> parts;            // [rows, chunks]
    std::vector<PanelSum> sums;         // [rows, panels]
    std::vector<float> watched;         // values of all rows' watched tokens
    std::vector<size_t> first_watched;  // by row: its first of `watched`
  };

  // Scores are hidden * weight, plus bias: [weight->columns()] or empty.
  VocabularyProjection(std::shared_ptr<const PackedMatMul> weight, std::vector<float> bias);

  int64_t depth() const { return weight_->depth(); }
  int64_t vocabulary() const { return weight_->columns(); }

  // All scores: out [rows, vocabulary] from hidden [rows, depth].
  void Scores(const ExecutionContext& context, ConstMatrix<float> hidden, Matrix<float> out) const;

  // rows[i].status = ScanRow(scores of hidden's row i, kLogits, ...). hidden: [rows.size(), depth].
  void Scan(const ExecutionContext& context, ConstMatrix<float> hidden, absl::Span<Row> rows,
            Scratch& scratch) const;

 private:
  void FindRuns(ConstMatrix<float> hidden, absl::Span<const Row> rows, Scratch& scratch) const;
  // Rows of a run without columns.
  void ScanAll(int num_threads, int64_t first, int64_t count, absl::Span<Row> rows,
               Scratch& scratch) const;
  void ScanPicked(const Scratch::Run& run, absl::Span<Row> rows, const Scratch& scratch) const;
  // Makes room for the scan of rows [first_row, first_row + num_rows).
  void Plan(absl::Span<const Row> rows, int64_t first_row, int64_t num_rows, int64_t chunks,
            Scratch& scratch) const;
  void RunPanel(StepProfile* profile, const PackedMatMul::Activations& activations,
                int64_t first_row, int64_t panel, Matrix<float> out) const;
  // One row's scores of a panel: `values` are changed by the rules.
  void ScanPanel(const Row& row, int64_t panel, absl::Span<float> values, Scratch::Part& part,
                 PanelSum& sum, float* watched) const;
  // A panel's scores of some rows, or what is to be kept of them.
  void ScanTile(absl::Span<const Row> rows, int64_t first_row, int64_t panel, int64_t chunk,
                int64_t chunks, Matrix<float> scores, Scratch& scratch) const;
  absl::Status Finish(const Row& row, int64_t index, int64_t chunks, Scratch& scratch) const;
  // The row's scores as a whole, and ScanRow on them.
  absl::Status ScanWhole(const Row& row, int64_t index, Scratch& scratch) const;

  const std::shared_ptr<const PackedMatMul> weight_;
  const std::vector<float> bias_;
  const int64_t panels_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_VOCABULARY_PROJECTION_H_
