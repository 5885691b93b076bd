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
#include "engine/beam/beam_driver.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {
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
