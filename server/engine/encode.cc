#include "server/engine/encode.h"

#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "absl/time/clock.h"
#include "ops/base/fault_point.h"
#include "ops/base/interruption.h"
#include "ops/base/status.h"
#include "ops/kernels/parallel.h"
#include "server/engine/model/model_inputs.h"
#include "server/status/fault.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;
using Requests = std::vector<std::unique_ptr<Request>>;

// An input of the requests, [1, ...] each and of one shape, stacked.
template <typename InputOf>
Tensor Stack(absl::Span<const std::unique_ptr<Request>> group, const InputOf& input_of) {
  const Tensor& first = input_of(group[0]->source);
  ops::Shape shape = first.shape();
  shape[0] = static_cast<int64_t>(group.size());
  Tensor stacked(first.dtype(), shape);
  for (size_t i = 0; i < group.size(); ++i) {
    std::memcpy(stacked.mutable_bytes() + static_cast<int64_t>(i) * first.num_bytes(),
                input_of(group[i]->source).bytes(), static_cast<size_t>(first.num_bytes()));
  }
  return stacked;
}

// Of all encoders, in the order of wanted_inputs.
std::vector<Tensor> StackFurther(absl::Span<const std::unique_ptr<Request>> group) {
  std::vector<Tensor> further;
  for (size_t i = 0; i < group[0]->source.further_inputs.size(); ++i) {
    further.push_back(Stack(group, [i](const PreparedSource& source) -> const Tensor& {
      return source.further_inputs[i];
    }));
  }
  return further;
}

absl::Status RunEncoder(const ops::ExecutionContext& context, const EncoderPart& encoder,
                        const Tensor& sources, absl::Span<const Tensor> further,
                        std::vector<Tensor>& outputs) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> encoder_inputs,
                      EncoderInputs(encoder, sources, further));
  return Annotate(encoder.model->Run(context, encoder_inputs, outputs), "encoder");
}

absl::Status RunGroup(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                      absl::Span<const std::unique_ptr<Request>> group,
                      std::vector<absl::Status>& statuses) {
  const Tensor sources = Stack(
      group, [](const PreparedSource& source) -> const Tensor& { return *source.encoder_input; });
  const std::vector<Tensor> further = StackFurther(group);
  size_t used = 0;  // of them
  EncodedSources encoded;
  encoded.num_sources = static_cast<int64_t>(group.size());
  encoded.outputs.resize(static_cast<size_t>(parts.num_members()));
  for (int member = 0; member < parts.num_members(); ++member) {
    const EncoderPart* const encoder = parts.encoder_of(member);
    if (member == 0 || encoder != parts.encoder()) {
      const size_t count = encoder->further_inputs.size();
      BW_RETURN_IF_ERROR(RunEncoder(context, *encoder, sources,
                                    absl::MakeConstSpan(further).subspan(used, count),
                                    encoded.outputs[static_cast<size_t>(member)]));
      used += count;
    }
  }
  for (size_t row = 0; row < group.size(); ++row) {
    statuses[row].Update(group[row]->Start(context, encoded, static_cast<int64_t>(row)));
  }
  return absl::OkStatus();
}

// Each request for itself. What made them fail together may be one source alone, for example an
// index that the graph computes from it: the others have their answers.
void EncodeApart(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                 absl::Span<const std::unique_ptr<Request>> group,
                 std::vector<absl::Status>& statuses) {
  for (size_t i = 0; i < group.size(); ++i) {
    std::vector<absl::Status> status(1);
    statuses[i] = RunGroup(context, parts, group.subspan(i, 1), status);
    statuses[i].Update(status[0]);
  }
}

// Fails if all do.
absl::Status Compute(const ops::ExecutionContext& context, const Requests& group,
                     std::vector<absl::Status>& statuses) {
  FaultPoint("engine.encode").IgnoreError();
  const DecodeModel::Parts& parts = group[0]->model->parts();
  if (group[0]->model->reads_whole_source()) {
    const absl::Status status = RunGroup(context, parts, group, statuses);
    // An interrupted run is repeated by the engine, for those that are not answered yet.
    if (status.ok() || group.size() == 1 || absl::IsDeadlineExceeded(status) ||
        absl::IsCancelled(status)) {
      return status;
    }
    EncodeApart(context, parts, group, statuses);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < group.size(); ++i) {
    statuses[i] = group[i]->StartAlone(context);
  }
  return absl::OkStatus();
}

// What became of a group while others could look at it.
struct Outcome {
  absl::Status status;  // of all of them; if OK, of each:
  std::vector<absl::Status> statuses;
  bool out_of_memory = false;
};

void EncodeOne(ops::ExecutionContext context, EncodeGroup& group, Outcome& outcome) {
  const absl::Time begin = absl::Now();
  context.deadline = group.deadline;
  try {
    outcome.statuses.resize(group.requests.size());
    outcome.status = Compute(context, group.requests, outcome.statuses);
  } catch (const std::bad_alloc&) {
    outcome.out_of_memory = true;
  }
  group.took = absl::Now() - begin;
}

void EncodeAll(const ops::ExecutionContext& context, absl::Span<EncodeGroup> groups,
               absl::Span<Outcome> outcomes) {
  const auto threads = static_cast<size_t>(context.num_threads);
  if (threads < 2 || groups.size() < threads) {
    for (size_t i = 0; i < groups.size(); ++i) {
      EncodeOne(context, groups[i], outcomes[i]);
    }
    return;
  }
  ops::ExecutionContext alone = context;
  alone.num_threads = 1;
  const Interruption* const interruption = Interruption::current();
  std::atomic<size_t> next = 0;
  ops::ParallelFor(context.num_threads, context.num_threads, [&](int64_t) {
    const Interruption::Scope scope(interruption);
    for (size_t i = next++; i < groups.size(); i = next++) {
      EncodeOne(alone, groups[i], outcomes[i]);
    }
  });
}

// Found of a source once it was encoded: that it is too short for a frame, for example. What the
// encoder itself says is nobody's fault.
bool IsFaultOfSource(const absl::Status& status) {
  const status::Faults faults = status::FaultsOf(status);
  return absl::IsInvalidArgument(status) && !faults.empty() && !faults[0].field.empty();
}

// Answers those that failed, and hands on the others.
void HandOn(EncodeGroup& group, const Outcome& outcome, const Underway* underway, Requests& ready,
            Requests* again) {
  if (outcome.out_of_memory) {
    group.requests.clear();  // they are told as they go
    return;
  }
  for (size_t i = 0; i < group.requests.size(); ++i) {
    std::unique_ptr<Request>& request = group.requests[i];
    const absl::Status& own = outcome.status.ok() ? outcome.statuses[i] : outcome.status;
    if (request->is_answered) {
      continue;
    }
    if (own.ok()) {
      ready.push_back(std::move(request));
    } else if (absl::IsCancelled(own) && again != nullptr && underway->was_interrupted()) {
      request->encodes_alone = true;
      again->push_back(std::move(request));
    } else if (!request->model->reads_whole_source() || absl::IsDeadlineExceeded(own) ||
               IsFaultOfSource(own)) {
      request->Fail(own);
    } else {
      request->Fail(absl::InternalError(own.message()));
    }
  }
}

}  // namespace

Requests Encode(const ops::ExecutionContext& context, absl::Span<EncodeGroup> groups,
                Underway* underway, Requests* again) {
  std::vector<Outcome> outcomes(groups.size());
  {
    std::vector<Request*> views;
    for (const EncodeGroup& group : groups) {
      for (const auto& request : group.requests) {
        views.push_back(request.get());
      }
    }
    const Underway::Scope scope(underway, *views[0]->model, views, /*driver=*/nullptr);
    EncodeAll(context, groups, absl::MakeSpan(outcomes));
  }
  Requests ready;
  for (size_t i = 0; i < groups.size(); ++i) {
    HandOn(groups[i], outcomes[i], underway, ready, again);
  }
  return ready;
}

}  // namespace beamwright::engine
