// From scores to candidates: for each row of a step, the best tokens under the row's rules, and the
// log-probabilities of watched tokens. Run:
//
// 1. List gives each request's rows a place; the lists are kept from step to step.
// 2. For an ensemble, MixMembers joins the scores of all members; with fusion, AddScorers adds
//    language models and other scorers (FusedRow).
// 3. MakeRules takes the rules that the search has written for the row. A further position of a
//    prompt only watches its known token.
// 4. Scan picks the candidates (ops::ScanRow). If the projection onto the vocabulary was split off,
//    ScanPanels computes and scans scores panel by panel, so that the whole row of scores is never
//    written to memory.
#include "engine/beam/row_scan.h"

#include <algorithm>

#include "ops/base/status.h"
#include "ops/base/step_profile.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {
namespace {

// Below this many logits a parallel region costs more than the scan.
constexpr int64_t kParallelScan = 1 << 15;

}  // namespace

void RowScan::List(absl::Span<const std::unique_ptr<BeamRequest>> requests) {
  num_rows_ = 0;
  for (const auto& request : requests) {
    for (int own_row = 0; own_row < request->step_rows; ++own_row) {
      if (num_rows_ == rows_.size()) {
        rows_.emplace_back();
      }
      Row& row = rows_[num_rows_++];
      row.request = request.get();
      row.own_row = own_row;
    }
  }
}

absl::Status RowScan::MixMembers(const Step& step, size_t number, Row& row) {
  row.parts.clear();
  // Every request uses every member, so that a row has one number in all of them.
  for (size_t member = 0; member < step.parts.member_weights.size(); ++member) {
    const StepRunner& runner = step.runners[member];
    row.parts.push_back({runner.Scores(static_cast<int>(number)), runner.kind(),
                         step.parts.member_weights[member]});
  }
  BW_RETURN_IF_ERROR(
      ops::MixScores(absl::MakeSpan(row.parts), step.parts.mix_kind, row.scratch, row.mixed));
  row.members.clear();
  for (const ops::MixPart& part : row.parts) {
    row.members.push_back({part.scores, part.shift, part.kind == ops::ScoreKind::kProbabilities});
  }
  return absl::OkStatus();
}

absl::Status RowScan::AddScorers(const Step& step, Row& row) {
  const auto vocabulary = static_cast<size_t>(step.parts.vocabulary_size());
  for (size_t i = 0; i < row.request->scorers.size(); ++i) {
    const RequestScorer& scorer = row.request->scorers[i];
    const absl::Span<float> scores = row.fused.Scores(i, vocabulary);
    if (scorer.rows != nullptr) {
      scorer.rows->Score(row.own_row, scores);
      continue;
    }
    const StepRunner& runner = step.runners[static_cast<size_t>(scorer.decoder)];
    const int first = row.request->decoders[static_cast<size_t>(scorer.decoder)].rows.first_row;
    BW_RETURN_IF_ERROR(Annotate(
        ops::ToLogProbs(runner.Scores(first + row.own_row), runner.kind(), scores), scorer.name));
  }
  row.fused.Join(row.request->search_options().scorers);
  return absl::OkStatus();
}

absl::Status RowScan::MakeRules(const Step& step, Row& row) {
  if (row.request->is_answered) {
    row.rules = RowRules();  // its search may have no rows any more
    return absl::OkStatus();
  }
  const search::RowSearch& search = row.request->rows();
  const int own_row = row.own_row / row.request->positions;
  const int position = row.own_row % row.request->positions;
  row.rules = search.rules()[static_cast<size_t>(own_row)];
  if (position > 0) {
    row.rules.watched = search.known_tokens(own_row).subspan(static_cast<size_t>(position), 1);
  }
  if (!row.request->scorers.empty()) {
    BW_RETURN_IF_ERROR(AddScorers(step, row));
    row.rules.added = row.fused.added();
  }
  return absl::OkStatus();
}

absl::Status RowScan::Scan(const Step& step, size_t number, Row& row) {
  absl::Span<const float> scores = step.runners[0].Scores(static_cast<int>(number));
  ops::ScoreKind kind = step.runners[0].kind();
  if (!step.parts.member_weights.empty()) {
    BW_RETURN_IF_ERROR(MixMembers(step, number, row));
    scores = row.mixed;
    kind = ops::ScoreKind::kLogits;
  }
  BW_RETURN_IF_ERROR(MakeRules(step, row));
  return ops::ScanRow(scores, kind, row.rules, row.request->rows().candidates_per_row(), row.found);
}

void RowScan::ScanPanels(const ops::ExecutionContext& context, const StepRunner& runner) {
  in_panels_.resize(num_rows_);
  for (size_t i = 0; i < num_rows_; ++i) {
    Row& row = rows_[i];
    in_panels_[i] = {&row.rules, row.request->rows().candidates_per_row(), &row.found,
                     absl::OkStatus()};
  }
  runner.projection()->Scan(context, runner.hidden(), absl::MakeSpan(in_panels_), panels_);
  for (size_t i = 0; i < num_rows_; ++i) {
    rows_[i].status.Update(in_panels_[i].status);
  }
}

void RowScan::ListFound(Row& row) {
  row.tokens.clear();
  row.log_probs.clear();
  row.rank_scores.clear();
  for (const ops::Candidate& candidate : row.found.best) {
    row.tokens.push_back(candidate.token);
    row.log_probs.push_back(candidate.log_prob);
    row.rank_scores.push_back(candidate.rank_score);
  }
}

void RowScan::Run(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                  absl::Span<StepRunner> runners,
                  absl::Span<const std::unique_ptr<BeamRequest>> requests) {
  const PhaseScope phase(context.profile, Phase::kSelection);
  List(requests);
  const Step step{parts, runners};
  // An ensemble mixes whole rows of scores; otherwise the model's own are scanned as they are made.
  const bool in_panels = parts.member_weights.empty() && runners[0].projection() != nullptr;
  const bool is_light = in_panels && parts.scorers.empty();
  const int64_t work = is_light ? 0 : static_cast<int64_t>(num_rows_) * parts.vocabulary_size();
  const int threads = work < kParallelScan ? 1 : context.num_threads;
  for (StepRunner& runner : runners.subspan(in_panels ? 1 : 0)) {
    if (runner.num_rows() > 0) {
      runner.ComputeScores(context);
    }
  }
  ops::ParallelFor(threads, static_cast<int64_t>(num_rows_), [&](int64_t at) {
    const auto number = static_cast<size_t>(at);
    Row& row = rows_[number];
    row.status = in_panels ? MakeRules(step, row) : Scan(step, number, row);
  });
  if (in_panels) {
    ScanPanels(context, runners[0]);
  }
}

absl::StatusOr<search::RowCandidates> RowScan::Candidates(size_t number) {
  Row& row = rows_[number];
  if (!row.status.ok()) {
    return absl::InternalError(absl::StrCat("step ", row.request->rows().num_steps(), ", row ",
                                            row.own_row,
                                            ": the model's scores: ", row.status.message()));
  }
  ListFound(row);
  return search::RowCandidates{row.tokens,
                               row.log_probs,
                               row.rank_scores,
                               row.found.watched,
                               row.request->scorers.empty() ? nullptr : &row.fused,
                               row.members,
                               {}};
}

}  // namespace beamwright::engine
