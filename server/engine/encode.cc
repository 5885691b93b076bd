#include "server/engine/encode.h"

#include <cstring>

#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "server/engine/model/model_inputs.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;
using Requests = std::vector<std::unique_ptr<Request>>;

// The requests' inputs, [1, ...] each and of one shape, stacked.
Tensor Stack(absl::Span<const std::unique_ptr<Request>> group) {
  const Tensor& first = *group[0]->source.encoder_input;
  ops::Shape shape = first.shape();
  shape[0] = static_cast<int64_t>(group.size());
  Tensor stacked(first.dtype(), shape);
  for (size_t i = 0; i < group.size(); ++i) {
    const Tensor& input = *group[i]->source.encoder_input;
    std::memcpy(stacked.mutable_bytes() + static_cast<int64_t>(i) * first.num_bytes(),
                input.bytes(), static_cast<size_t>(first.num_bytes()));
  }
  return stacked;
}

absl::Status RunEncoder(const ops::ExecutionContext& context, const EncoderPart& encoder,
                        const Tensor& sources, std::vector<Tensor>& outputs) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> encoder_inputs, EncoderInputs(encoder, sources));
  return Annotate(encoder.model->Run(context, encoder_inputs, outputs), "encoder");
}

absl::Status EncodeGroup(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                         absl::Span<const std::unique_ptr<Request>> group,
                         std::vector<absl::Status>& statuses) {
  const Tensor sources = Stack(group);
  EncodedSources encoded;
  encoded.num_sources = static_cast<int64_t>(group.size());
  encoded.outputs.resize(static_cast<size_t>(parts.num_members()));
  for (int member = 0; member < parts.num_members(); ++member) {
    const EncoderPart* const encoder = parts.decoder(member).encoder.get();
    if (member == 0 || encoder != parts.encoder()) {
      BW_RETURN_IF_ERROR(
          RunEncoder(context, *encoder, sources, encoded.outputs[static_cast<size_t>(member)]));
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
    statuses[i] = EncodeGroup(context, parts, group.subspan(i, 1), status);
    statuses[i].Update(status[0]);
  }
}

// Fails if all do.
absl::Status Compute(const ops::ExecutionContext& context, const Requests& group,
                     std::vector<absl::Status>& statuses) {
  FaultPoint("engine.encode").IgnoreError();
  const DecodeModel::Parts& parts = group[0]->model->parts();
  if (parts.encoder() != nullptr) {
    const absl::Status status = EncodeGroup(context, parts, group, statuses);
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

}  // namespace

Requests Encode(const ops::ExecutionContext& context, Requests group, Underway* underway,
                Requests* again) {
  const DecodeModel::Parts& parts = group[0]->model->parts();
  std::vector<absl::Status> statuses(group.size());
  absl::Status status;
  {
    std::vector<Request*> views;
    for (const auto& request : group) {
      views.push_back(request.get());
    }
    const Underway::Scope scope(underway, *group[0]->model, views, /*driver=*/nullptr);
    status = Compute(context, group, statuses);
  }
  Requests ready;
  for (size_t i = 0; i < group.size(); ++i) {
    const absl::Status& own = status.ok() ? statuses[i] : status;
    if (group[i]->is_answered) {
      continue;
    }
    if (own.ok()) {
      ready.push_back(std::move(group[i]));
    } else if (absl::IsCancelled(own) && again != nullptr && underway->was_interrupted()) {
      group[i]->encodes_alone = true;
      again->push_back(std::move(group[i]));
    } else if (parts.encoder() == nullptr || absl::IsDeadlineExceeded(own)) {
      group[i]->Fail(own);
    } else {
      group[i]->Fail(absl::InternalError(own.message()));
    }
  }
  return ready;
}

}  // namespace beamwright::engine
