// Encoder runs over groups of sources, and what each request's steps start from (batching at the
// encoder).
//
// 1. MakeGroup, SplitForThreads: groups come from the EncodeQueue. Where sources differ in length,
//    a group is halved, the longer sources first, until each thread has one.
// 2. Encode: EncodeAll runs the groups, one after the other with all threads, or side by side with
//    one thread each if there are at least as many groups as threads. While they run, the
//    supervisor can answer their requests (Underway).
// 3. RunGroup: sources of one shape are stacked (Stack); sources of unequal lengths are padded with
//    their own last position (StackFilledUp), only for encoders that were proven not to look behind
//    a source's end. Each encoder of an ensemble runs once; then each request starts from its row
//    (Request::Start).
// 4. If a run fails, EncodeApart runs each source alone: one bad source does not fail the others.
// 5. HandOn, after the runs: failed requests get their answer, others are ready; those of an
//    interrupted run are returned in `again` and then encoded alone.
#include "engine/schedule/encode.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "engine/model/model_inputs.h"
#include "engine/queue/encode_queue.h"
#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;
using Requests = std::vector<std::unique_ptr<Request>>;

// Stacks an input of the requests, [1, ...] each and of one shape.
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

// The length of each source along `axis`; empty if all sources have one shape.
std::vector<int64_t> LengthsOf(absl::Span<const std::unique_ptr<Request>> group, int axis) {
  const auto shape_of = [](const std::unique_ptr<Request>& request) -> const ops::Shape& {
    return request->source.encoder_input->shape();
  };
  std::vector<int64_t> lengths;
  if (std::all_of(group.begin(), group.end(), [&](const std::unique_ptr<Request>& request) {
        return shape_of(request) == shape_of(group[0]);
      })) {
    return lengths;
  }
  for (const std::unique_ptr<Request>& request : group) {
    lengths.push_back(request->source.encoder_input->dim(axis));
  }
  return lengths;
}

// Stacks sources that differ along `axis` alone. Each is padded with its own last position, which
// is a valid input of the encoder.
Tensor StackFilledUp(absl::Span<const std::unique_ptr<Request>> group,
                     const std::vector<int64_t>& lengths, int axis) {
  const Tensor& first = *group[0]->source.encoder_input;
  ops::Shape shape = first.shape();
  shape[0] = static_cast<int64_t>(group.size());
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  shape[static_cast<size_t>(axis)] = longest;
  Tensor stacked(first.dtype(), shape);
  int64_t outer = 1;  // of one source
  for (int i = 1; i < axis; ++i) {
    outer *= first.dim(i);
  }
  const int64_t place =
      stacked.num_bytes() / std::max<int64_t>(shape[0] * outer * longest, 1);  // bytes of one
  std::byte* to = stacked.mutable_bytes();
  for (size_t i = 0; i < group.size(); ++i) {
    const std::byte* from = group[i]->source.encoder_input->bytes();
    for (int64_t j = 0; j < outer; ++j) {
      std::memcpy(to, from, static_cast<size_t>(lengths[i] * place));
      from += lengths[i] * place;
      to += lengths[i] * place;
      for (int64_t at = lengths[i]; at < longest; ++at) {
        std::memcpy(to, from - place, static_cast<size_t>(place));
        to += place;
      }
    }
  }
  return stacked;
}

// The stacked further inputs of all encoders, in the order of wanted_inputs.
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
                        const std::vector<int64_t>& lengths, std::vector<Tensor>& outputs) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> encoder_inputs,
                      EncoderInputs(encoder, sources, further, lengths));
  return Annotate(encoder.model->Run(context, encoder_inputs, outputs), "encoder");
}

absl::Status RunGroup(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                      absl::Span<const std::unique_ptr<Request>> group,
                      std::vector<absl::Status>& statuses) {
  const int length_axis = parts.encoder()->length_axis;
  const std::vector<int64_t> lengths = LengthsOf(group, length_axis);
  const Tensor sources = !lengths.empty()
                             ? StackFilledUp(group, lengths, length_axis)
                             : Stack(group, [](const PreparedSource& source) -> const Tensor& {
                                 return *source.encoder_input;
                               });
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
                                    absl::MakeConstSpan(further).subspan(used, count), lengths,
                                    encoded.outputs[static_cast<size_t>(member)]));
      used += count;
    }
  }
  for (size_t row = 0; row < group.size(); ++row) {
    statuses[row].Update(group[row]->Start(context, encoded, static_cast<int64_t>(row)));
  }
  return absl::OkStatus();
}

// Encodes each request alone, after a run of all of them failed: one source may be the cause, for
// example by an index that the graph computes from it.
void EncodeApart(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                 absl::Span<const std::unique_ptr<Request>> group,
                 std::vector<absl::Status>& statuses) {
  for (size_t i = 0; i < group.size(); ++i) {
    std::vector<absl::Status> status(1);
    statuses[i] = RunGroup(context, parts, group.subspan(i, 1), status);
    statuses[i].Update(status[0]);
  }
}

// Encodes a group and prepares its requests. An error fails all of them; else `statuses` has each.
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

// The results of a group's run, kept until the supervisor no longer looks at the group.
struct Outcome {
  absl::Status status;  // of all of them; if OK, of each:
  std::vector<absl::Status> statuses;
  bool out_of_memory = false;
};

void EncodeOne(ops::ExecutionContext context, EncodeGroup& group, Outcome& outcome) {
  const absl::Time begin = SteadyNow();
  context.deadline = group.deadline;
  try {
    outcome.statuses.resize(group.requests.size());
    outcome.status = Compute(context, group.requests, outcome.statuses);
  } catch (const std::bad_alloc&) {
    outcome.out_of_memory = true;
  }
  group.took = SteadyNow() - begin;
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
  std::atomic<size_t> next = 0;
  ops::ParallelFor(context.num_threads, context.num_threads, [&](int64_t) {
    for (size_t i = next++; i < groups.size(); i = next++) {
      EncodeOne(alone, groups[i], outcomes[i]);
    }
  });
}

// Whether an error names a fault of the source that showed when it was encoded, for example that it
// is too short for a frame. Errors of the encoder name no field.
bool IsFaultOfSource(const absl::Status& status) {
  const status::Faults faults = status::FaultsOf(status);
  return absl::IsInvalidArgument(status) && !faults.empty() && !faults[0].field.empty();
}

// Answers failed requests, and hands on the others.
void HandOn(EncodeGroup& group, const Outcome& outcome, const Underway* underway, Requests& ready,
            Requests* again) {
  if (outcome.out_of_memory) {
    group.requests.clear();  // their destructors answer them
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

bool IsOfOneLength(const EncodeGroup& group) {
  return EncodePositions(*group.requests.front()) == EncodePositions(*group.requests.back());
}

// Takes the shorter sources, about half of the positions, out of a group of at least two sources.
EncodeGroup TakeHalf(EncodeGroup& group) {
  size_t kept = 1;
  int64_t positions = EncodePositions(*group.requests[0]);
  while (kept + 1 < group.requests.size() &&
         2 * positions + EncodePositions(*group.requests[kept]) <= group.positions) {
    positions += EncodePositions(*group.requests[kept++]);
  }
  const auto middle = group.requests.begin() + static_cast<std::ptrdiff_t>(kept);
  Requests half(std::make_move_iterator(middle), std::make_move_iterator(group.requests.end()));
  group.requests.erase(middle, group.requests.end());
  group = MakeGroup(std::move(group.requests));
  return MakeGroup(std::move(half));
}

}  // namespace

EncodeGroup MakeGroup(Requests requests) {
  EncodeGroup group;
  group.requests = std::move(requests);
  group.num_sources = static_cast<int>(group.requests.size());
  group.deadline = absl::InfinitePast();
  for (const auto& request : group.requests) {
    group.positions += EncodePositions(*request);
    group.deadline = std::max(group.deadline, request->call.deadline);
  }
  return group;
}

void SplitForThreads(int num_threads, std::vector<EncodeGroup>& groups) {
  const auto wanted = static_cast<size_t>(num_threads);
  size_t most = 0;  // groups that there could be
  for (const EncodeGroup& group : groups) {
    most += IsOfOneLength(group) ? 1 : group.requests.size();
  }
  if (most < wanted) {
    return;
  }
  std::vector<bool> may_split;
  for (const EncodeGroup& group : groups) {
    may_split.push_back(!IsOfOneLength(group));
  }
  while (groups.size() < wanted) {
    size_t largest = groups.size();
    for (size_t i = 0; i < groups.size(); ++i) {
      if (may_split[i] && groups[i].requests.size() > 1 &&
          (largest == groups.size() || groups[i].positions > groups[largest].positions)) {
        largest = i;
      }
    }
    EncodeGroup half = TakeHalf(groups[largest]);
    groups.push_back(std::move(half));
    may_split.push_back(true);
  }
}

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
