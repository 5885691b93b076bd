// Steps the searches of all requests that run on one model. A step (Step):
//
// 1. Requests that were cancelled or are overdue are answered and leave (BeginStep, AnswerDead,
//    DropAnswered).
// 2. RunDecoders: OrderByGroup sorts the requests so that those with states of equal shapes are
//    neighbours, ShareRows says how many known positions (of a prompt) each reads in this step, and
//    the runner of each decoder steps the rows of all requests that use it.
// 3. scan_.Run turns the scores of all decoders into the candidates of each row: it adds them up,
//    applies the rules of the row and picks the best tokens.
// 4. AdvanceSearches: every search takes its candidates, on all threads; then, on this thread,
//    searches that are done are answered together and the others report their progress.
//
// While the decoders run, which takes nearly all of the time, the scope of `underway` lets another
// thread cut a search short, for example at its deadline. A step that was interrupted for this is
// made again without the requests that have been answered (is_repeated): the runners restore the
// states, and the requests take part as before.
//
// The scan of a step's rows (RowScan) comes first.
#include "engine/beam/beam_driver.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/base/step_profile.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {

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

namespace {

// Half a microsecond, as ops/kernels/parallel.h counts it.
constexpr int64_t kWorkToAdvanceARow = 50'000;

}  // namespace

BeamDriver::BeamDriver(std::shared_ptr<const DecodeModel> model) : RequestDriver(std::move(model)) {
  const DecodeModel::Parts& parts = this->model().parts();
  for (int decoder = 0; decoder < parts.num_decoders(); ++decoder) {
    runners_.emplace_back(parts.decoder(decoder), parts.num_decoders() == 1);
  }
}

// Gives requests in their first step the number of the shapes of their states, and sorts by it.
void BeamDriver::OrderByGroup() {
  for (const auto& request : requests_) {
    if (request->group < 0) {
      std::string shapes;
      for (const auto& decoder : request->decoders) {
        for (const ops::Tensor& state : decoder.rows.start.states) {
          absl::StrAppend(&shapes, ops::ToString(absl::MakeConstSpan(state.shape()).subspan(1)),
                          ";");
        }
      }
      request->group = groups_.emplace(shapes, static_cast<int>(groups_.size())).first->second;
    }
  }
  const auto earlier = [](const auto& a, const auto& b) { return a->group < b->group; };
  if (!std::is_sorted(requests_.begin(), requests_.end(), earlier)) {
    std::stable_sort(requests_.begin(), requests_.end(), earlier);
  }
}

// Says how many positions each request reads in this step. Requests whose next choices are known,
// such as those with a prompt, share max_known_rows equally; what one does not need is left for
// those that come after it.
void BeamDriver::ShareRows() {
  int num_sharing = 0;
  int left = 0;
  for (auto& request : requests_) {
    request->takes_part = !is_repeated() || request->takes_part;
    request->positions = request->takes_part && !request->is_answered
                             ? std::min(request->MostPositions(), runners_[0].most_positions())
                             : 1;
    num_sharing += request->positions > 1 ? 1 : 0;
    left = std::max(left, request->max_known_rows);
  }
  for (auto& request : requests_) {
    const int num_rows = request->takes_part ? request->rows().num_rows() : 0;
    if (request->positions > 1) {
      const int most = (left + num_sharing - 1) / num_sharing / std::max(num_rows, 1);
      request->positions = std::min(request->positions, most + 1);
      left -= (request->positions - 1) * num_rows;
      --num_sharing;
    }
    request->step_rows = num_rows * request->positions;
  }
}

absl::Status BeamDriver::RunDecoders(const ops::ExecutionContext& context, Underway* underway) {
  OrderByGroup();
  const bool reads_attention =
      std::any_of(requests_.begin(), requests_.end(),
                  [](const auto& request) { return request->reads_attention; });
  ShareRows();
  for (size_t decoder = 0; decoder < runners_.size(); ++decoder) {
    runners_[decoder].Begin();
    for (auto& request : requests_) {
      if (request->takes_part && request->decoders[decoder].is_used) {
        runners_[decoder].Add(request->rows(), request->decoders[decoder].rows, request->group,
                              request->positions);
      }
    }
  }
  // Below, no search is read, so another thread may stop one.
  const Underway::Scope scope = MakeScope(underway);
  BW_RETURN_IF_ERROR(FaultPoint("engine.step"));
  for (size_t decoder = 0; decoder < runners_.size(); ++decoder) {
    StepRunner& runner = runners_[decoder];
    if (runner.num_rows() == 0) {
      runner.Clear();
      continue;
    }
    BW_RETURN_IF_ERROR(runner.Run(context, decoder == 0 && reads_attention));
  }
  return absl::OkStatus();
}

void BeamDriver::ListAdvanced() {
  advanced_.clear();
  size_t row = 0;
  AttentionRows attention = runners_[0].Attention();
  for (const auto& request : requests_) {
    const int num_rows = request->step_rows;
    if (request->takes_part && !request->is_answered) {
      request->row_steps += num_rows;
      Advanced& one = advanced_.emplace_back(Advanced{request.get(), row, absl::OkStatus()});
      if (request->reads_attention) {
        one.status = request->attention.AddStep(attention, static_cast<int64_t>(row), num_rows);
      }
    }
    row += static_cast<size_t>(num_rows);
  }
}

void BeamDriver::AdvanceSearches(const ops::ExecutionContext& context) {
  ListAdvanced();
  const int64_t rows = scan_.num_rows();
  ops::ParallelFor(context.num_threads, static_cast<int64_t>(advanced_.size()),
                   rows * kWorkToAdvanceARow, [&](int64_t at) {
                     Advanced& one = advanced_[static_cast<size_t>(at)];
                     if (one.status.ok()) {
                       one.status = Advance(one.first_row, *one.request);
                     }
                   });
  Requests finished;
  size_t num_running = 0;
  auto next = advanced_.begin();
  for (auto& request : requests_) {
    if (next == advanced_.end() || next->request != request.get()) {
      if (!request->is_answered) {
        requests_[num_running++] = std::move(request);
      }
      continue;
    }
    const absl::Status status = std::move((next++)->status);
    if (!status.ok()) {
      request->Fail(status);
      continue;
    }
    for (int i = 0; request->call.timeline != nullptr && i < request->positions; ++i) {
      request->call.timeline->Step();
    }
    request->ReportProgress();
    if (request->rows().done()) {
      CountDone();
      finished.push_back(std::move(request));
    } else {
      requests_[num_running++] = std::move(request);
    }
  }
  requests_.resize(num_running);
  std::vector<BeamRequest*> views;
  for (const auto& request : finished) {
    views.push_back(request.get());
  }
  Answer(context, views);
}

absl::Status BeamDriver::Advance(size_t first_row, BeamRequest& request) {
  static thread_local std::vector<search::RowCandidates> candidates;
  for (int position = 0; position < request.positions; ++position) {
    candidates.clear();
    for (int own = position; own < request.step_rows; own += request.positions) {
      BW_ASSIGN_OR_RETURN(search::RowCandidates found,
                          scan_.Candidates(first_row + static_cast<size_t>(own)));
      candidates.push_back(found);
      if (request.reads_attention) {
        candidates.back().attention = request.attention.last(own);
      }
    }
    const absl::Status status = request.Advance(candidates);
    if (!status.ok()) {
      // A score that is not a log-probability is the model's fault, not the caller's.
      return absl::IsInvalidArgument(status) ? absl::InternalError(status.message()) : status;
    }
  }
  if (request.WantsStates()) {
    request.KeepStates(runners_[0].StatesOf(request.decoders[0].rows, request.group));
  }
  return absl::OkStatus();
}

absl::Duration BeamDriver::Step(const ops::ExecutionContext& context, EngineObserver* observer,
                                Underway* underway) {
  AnswerDead(BeginStep(), observer);
  DropAnswered();
  const absl::Duration selection = RunStep(
      context, underway, [&] { return RunDecoders(context, underway); },
      [&] {
        const absl::Time begin = observer == nullptr ? absl::Time() : SteadyNow();
        scan_.Run(context, model().parts(), absl::MakeSpan(runners_), requests_);
        const absl::Duration took = observer == nullptr ? absl::Duration() : SteadyNow() - begin;
        AdvanceSearches(context);
        return took;
      });
  if (is_repeated()) {
    for (StepRunner& runner : runners_) {
      runner.Repeat();
    }
  }
  if (requests_.empty()) {
    groups_.clear();
    ClearRunners();
  }
  return selection;
}

void BeamDriver::FailAll(const absl::Status& why) {
  RequestDriver::FailAll(why);
  ClearRunners();
}

void BeamDriver::ClearRunners() {
  for (StepRunner& runner : runners_) {
    runner.Clear();
  }
}

}  // namespace beamwright::engine
