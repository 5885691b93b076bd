// The Open Inference Protocol over messages. Three kinds of call:
//
// 1. Infer. ReadInferRequest (infer_request.cc) turns tensors into a DecodeJob; WriteInferResponse
//    turns its answer into tensors. A model on demand is loaded before (Infer), then InferNow
//    decides: a request with a sequence id is one part of a source that is searched while it
//    arrives (Sequences), any other request is a whole call of serving::DecodeJob.
// 2. Calls that only read (Answer): health, metadata, configuration, statistics, the repository's
//    index, log settings. Metadata is derived from the model's description: Inputs lists the
//    tensors that a request may have, Outputs those of every answer. Metadata has the axis of
//    sources (Batched), a Triton ModelConfig has not (Config).
// 3. Control: load and unload. They take long, so they run on a separate thread (loader_).
//
// The names and shapes are those that stock clients of Triton expect: what the protocol cannot
// express, as a source of several forms, is an optional input.
#include "server/oip/service.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/bundle/repository.h"
#include "engine/model/parts.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/oip/input_tensor.h"

namespace beamwright::oip {
namespace {

using TensorMetadata = inference::ModelMetadataResponse::TensorMetadata;

constexpr char kPlatform[] = "beamwright";
// Extensions of the protocol that stock clients ask for before they call.
constexpr const char* kExtensions[] = {"model_repository", "model_configuration", "statistics",
                                       "parameters",       "binary_tensor_data",  "logging",
                                       "sequence"};

TensorMetadata Metadata(const v1::TensorDescription& description) {
  TensorMetadata metadata;
  metadata.set_name(description.name());
  const Datatype* datatype = FindDType(description.dtype());
  metadata.set_datatype(datatype == nullptr ? "" : std::string(datatype->name));
  *metadata.mutable_shape() = description.shape();
  return metadata;
}

bool TakesSound(const v1::ModelDescription& model) { return model.config().has_sound(); }

TensorMetadata AudioInput() {
  TensorMetadata input;
  input.set_name(kSourceAudio);
  input.set_datatype("FP32");
  input.add_shape(-1);
  return input;
}

TensorMetadata PictureInput() {
  TensorMetadata input;
  input.set_name(kSourcePicture);
  input.set_datatype("BYTES");
  input.add_shape(1);
  return input;
}

TensorMetadata PromptInput() {
  TensorMetadata input;
  input.set_name(kPrompt);
  input.set_datatype("BYTES");
  input.add_shape(1);
  return input;
}

// Whether a source may come in several requests, and is searched while it arrives.
bool TakesSequences(const engine::DecodeModel& model, const v1::ModelDescription& description) {
  return model.parts().frames != nullptr && SourceInput(description).name() == kSourceFeatures;
}

// Inputs and outputs without the axis of sources.
std::vector<TensorMetadata> Inputs(const engine::DecodeModel& model) {
  const v1::ModelDescription description = model.Describe();
  if (engine::TakesEmptySources(model)) {
    return {PromptInput()};
  }
  if (description.has_encoder_input()) {
    std::vector<TensorMetadata> inputs = {SourceInput(description)};
    if (TakesSound(description)) {
      inputs.push_back(AudioInput());
    }
    if (description.config().has_picture()) {
      inputs.push_back(PictureInput());
    }
    for (const v1::TensorDescription& input : description.further_inputs()) {
      inputs.push_back(Metadata(input));
    }
    return inputs;
  }
  std::vector<TensorMetadata> inputs;
  for (const auto* group : {&description.memory(), &description.states()}) {
    for (const v1::TensorDescription& input : *group) {
      inputs.push_back(Metadata(input));
    }
  }
  return inputs;
}

std::vector<TensorMetadata> Outputs() {
  std::vector<TensorMetadata> outputs;
  for (const OutputTensor& output : OutputTensors()) {
    if (output.if_named) {
      continue;
    }
    TensorMetadata& metadata = outputs.emplace_back();
    metadata.set_name(std::string(output.name));
    metadata.set_datatype(std::string(output.datatype));
    for (int axis = 1; axis < output.rank; ++axis) {
      metadata.add_shape(-1);
    }
    if (output.rank == 1) {
      metadata.add_shape(1);
    }
  }
  return outputs;
}

// With the axis of sources, as metadata has it.
TensorMetadata Batched(const TensorMetadata& tensor) {
  TensorMetadata batched = tensor;
  batched.clear_shape();
  batched.add_shape(-1);
  batched.mutable_shape()->MergeFrom(tensor.shape());
  return batched;
}

// As Triton's clients expect a configuration: dynamic batching, or sequence batching where sources
// may come in parts, since a configuration has one of the two.
inference::ModelConfig Config(const engine::DecodeModel& model) {
  const v1::ModelDescription description = model.Describe();
  inference::ModelConfig config;
  config.set_name(model.name());
  config.set_platform(kPlatform);
  config.set_backend(kPlatform);
  config.set_max_batch_size(engine::kMaxSources);
  config.mutable_version_policy()->mutable_latest()->set_num_versions(1);
  for (const TensorMetadata& input : Inputs(model)) {
    inference::ModelInput& added = *config.add_input();
    added.set_name(input.name());
    if (const Datatype* datatype = FindDatatype(input.datatype())) {
      added.set_data_type(datatype->config_type);
    }
    *added.mutable_dims() = input.shape();
    // One of them is the source.
    const bool is_source = input.name() == kSourceFeatures || input.name() == kSourceAudio ||
                           input.name() == kSourcePicture;
    added.set_optional(
        input.name() == kPrompt ||
        (is_source && (TakesSound(description) || description.config().has_picture())));
  }
  for (const TensorMetadata& output : Outputs()) {
    inference::ModelOutput& added = *config.add_output();
    added.set_name(output.name());
    added.set_data_type(FindDatatype(output.datatype())->config_type);
    *added.mutable_dims() = output.shape();
  }
  inference::ModelInstanceGroup& group = *config.add_instance_group();
  group.set_name(model.name());
  group.set_count(1);
  group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
  if (TakesSequences(model, description)) {
    config.mutable_sequence_batching()->set_max_sequence_idle_microseconds(
        static_cast<uint64_t>(absl::ToInt64Microseconds(kMostSequenceIdle)));
  } else {
    // Requests join running ones at any step: no request waits for a batch to fill.
    config.mutable_dynamic_batching();
  }
  config.mutable_model_transaction_policy()->set_decoupled(false);
  (*config.mutable_parameters())["numerics"].set_string_value(model.numerics());
  return config;
}

void Set(int64_t count, absl::Duration time, inference::StatisticDuration& duration) {
  duration.set_count(static_cast<uint64_t>(count));
  duration.set_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(time)));
}

inference::ModelStatistics Statistics(const engine::DecodeModel& model,
                                      const serving::ModelTotals& totals) {
  inference::ModelStatistics statistics;
  statistics.set_name(model.name());
  statistics.set_version(model.version());
  statistics.set_last_inference(static_cast<uint64_t>(absl::ToUnixMillis(totals.last_decoded)));
  statistics.set_inference_count(static_cast<uint64_t>(totals.sources_decoded));
  statistics.set_execution_count(static_cast<uint64_t>(totals.steps));
  inference::InferStatistics& infer = *statistics.mutable_inference_stats();
  Set(totals.calls_succeeded, totals.success_time, *infer.mutable_success());
  Set(totals.calls_failed, totals.failure_time, *infer.mutable_fail());
  Set(totals.sources_decoded, totals.queue_time, *infer.mutable_queue());
  Set(totals.sources_decoded, totals.compute_time, *infer.mutable_compute_infer());
  // Reading a request and writing its answer is not part of compute_infer and too short to count.
  Set(totals.sources_decoded, absl::ZeroDuration(), *infer.mutable_compute_input());
  Set(totals.sources_decoded, absl::ZeroDuration(), *infer.mutable_compute_output());
  return statistics;
}

absl::Status CheckName(const std::string& name, const std::string& version) {
  if (!version.empty() && !bundle::IsVersion(version) && !bundle::IsLabel(version)) {
    return Invalid("model version '", version, "' is neither a whole number from 1 on nor a label");
  }
  if (name.empty()) {
    return absl::NotFoundError("Request for unknown model: '' is not found");
  }
  return absl::OkStatus();
}

absl::StatusOr<serving::ServedModelPtr> PeekModel(const serving::ModelRegistry& models,
                                                  const std::string& name,
                                                  const std::string& version) {
  BW_RETURN_IF_ERROR(CheckName(name, version));
  return models.Peek(name, version);
}

}  // namespace

absl::StatusOr<serving::ModelPtr> FindModel(const serving::ModelRegistry& models,
                                            const std::string& name, const std::string& version) {
  BW_RETURN_IF_ERROR(CheckName(name, version));
  return models.Lookup(name, version);
}

TensorMetadata SourceInput(const v1::ModelDescription& model) {
  TensorMetadata input;
  if (model.config().source().form() != v1::TEXT_FORM_IDS) {
    input.set_name(kSourceText);
    input.set_datatype("BYTES");
    input.add_shape(1);
    return input;
  }
  input = Metadata(model.encoder_input());
  const bool ids = input.datatype() == "INT32" || input.datatype() == "INT64";
  input.set_name(ids ? kSourceIds : kSourceFeatures);
  return input;
}

void Service::Infer(const absl::StatusOr<inference::ModelInferRequest>& request,
                    const serving::Caller& caller, Done done) {
  if (!request.ok() || !core_.models().on_demand()) {
    InferNow(request, caller, std::move(done));
    return;
  }
  const auto kept = std::make_shared<absl::StatusOr<inference::ModelInferRequest>>(request);
  core_.models().Await(request->model_name(), request->model_version(), caller.deadline,
                       [this, kept, caller, done = std::move(done)](const absl::Status& status) {
                         if (!status.ok()) {
                           *kept = status;
                         }
                         InferNow(*kept, caller, done);
                       });
}

// Reads the request, then either gives it to the sequence that it names or runs it as one call. The
// answer's tensors are made within the call (convert), so an answer that is too large fails the
// call.
void Service::InferNow(const absl::StatusOr<inference::ModelInferRequest>& request,
                       const serving::Caller& caller, Done done) {
  absl::StatusOr<InferJob> job = request.ok() ? ReadInferRequest(core_.models(), *request)
                                              : absl::StatusOr<InferJob>(request.status());
  if (!job.ok()) {
    serving::DecodeJob(core_, job.status(), caller,
                       [done = std::move(done)](const auto& refused) { done(refused.status()); });
    return;
  }
  // Searches token by token need the whole source: no sequence of requests.
  const bool may_stream = job->job.model->parts().frames != nullptr;
  const absl::StatusOr<SequencePart> part =
      may_stream ? ReadSequencePart(request->parameters()) : SequencePart();
  if (!part.ok()) {
    core_.calls().Refuse(part.status(), caller);
    done(part.status());
    return;
  }
  serving::Caller within = caller;
  within.deadline = std::min(caller.deadline, SteadyNow() + job->timeout);
  within.priority = job->priority > 0 ? job->priority : caller.priority;
  if (!part->id.empty()) {
    // The sequence outlives this call.
    within.cancelled = nullptr;
    within.deadline = absl::InfiniteFuture();
    sequences_.Infer(*part, *std::move(job), within, std::move(done));
    return;
  }
  within.all_or_nothing = true;
  // Tensors are padded, so an answer may become too large here: before the call is counted.
  auto answer = std::make_shared<inference::ModelInferResponse>();
  within.convert = [form = std::move(job->form), answer](const v1::DecodeResponse& response) {
    BW_ASSIGN_OR_RETURN(*answer, WriteInferResponse(form, response));
    return absl::OkStatus();
  };
  serving::DecodeJob(
      core_, std::move(job->job), within,
      [answer, done = std::move(done)](const absl::StatusOr<v1::DecodeResponse>& response) {
        if (response.ok()) {
          done(std::move(*answer));
        } else {
          done(response.status());
        }
      });
}

template <typename Request>
absl::Status Service::CheckControl(const Request& request) const {
  if (!model_control_) {
    return absl::FailedPreconditionError(
        "models are not loaded or unloaded by request here: the server was started without "
        "--model-control explicit");
  }
  if (!request.repository_name().empty() ||
      (request.parameters_size() > 0 && !request.parameters().contains("unload_dependents"))) {
    return absl::UnimplementedError("'repository_name' and 'parameters' are not supported");
  }
  if (request.model_name().empty()) {
    return status::InvalidField("model_name", "is not set");
  }
  return core_.state().CheckAccepting();
}

void Service::Control(const inference::RepositoryModelLoadRequest& request, ControlDone done) {
  if (absl::Status status = CheckControl(request); !status.ok()) {
    done(std::move(status));
    return;
  }
  absl::StatusOr<std::shared_ptr<const void>> announced =
      core_.models().Announce(request.model_name());
  if (!announced.ok()) {
    done(announced.status());
    return;
  }
  loader_.Post([this, name = request.model_name(), done = std::move(done),
                load = *std::move(announced)]() mutable {
    absl::Status status = core_.models().Reload(name);
    load.reset();  // before `done`: a client may ask for the next load when it is called
    done(std::move(status));
  });
}

void Service::Control(const inference::RepositoryModelUnloadRequest& request, ControlDone done) {
  if (absl::Status status = CheckControl(request); !status.ok()) {
    done(std::move(status));
    return;
  }
  loader_.Post([this, name = request.model_name(), done = std::move(done)] {
    core_.models().Unload(name);
    done(absl::OkStatus());
  });
}

absl::Status Service::Answer(const inference::ServerLiveRequest& /*request*/,
                             inference::ServerLiveResponse& response) const {
  response.set_live(core_.state().health().live);
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::ServerReadyRequest& /*request*/,
                             inference::ServerReadyResponse& response) const {
  response.set_ready(core_.state().health().ready);
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::ModelReadyRequest& request,
                             inference::ModelReadyResponse& response) const {
  const absl::StatusOr<serving::ServedModelPtr> found =
      PeekModel(core_.models(), request.name(), request.version());
  if (absl::IsInvalidArgument(found.status())) {
    return found.status();
  }
  const absl::Time now = SteadyNow();
  const bool able = found.ok() && (*found)->failure().ok() &&
                    core_.quarantine().BackAt((*found)->name(), (*found)->version()) <= now;
  response.set_ready(core_.state().health().ModelReady(able));
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::ServerMetadataRequest& /*request*/,
                             inference::ServerMetadataResponse& response) const {
  response.set_name("beamwright");
  response.set_version(BEAMWRIGHT_VERSION);
  for (const char* extension : kExtensions) {
    response.add_extensions(extension);
  }
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::ModelMetadataRequest& request,
                             inference::ModelMetadataResponse& response) const {
  BW_ASSIGN_OR_RETURN(const serving::ModelPtr model,
                      FindModel(core_.models(), request.name(), request.version()));
  response.set_name(model->name());
  for (const serving::ServedModelPtr& served : core_.models().AllListed()) {
    if (served->name() == model->name()) {
      response.add_versions(served->version());
    }
  }
  response.set_platform(kPlatform);
  for (const TensorMetadata& input : Inputs(*model)) {
    *response.add_inputs() = Batched(input);
  }
  for (const TensorMetadata& output : Outputs()) {
    *response.add_outputs() = Batched(output);
  }
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::ModelConfigRequest& request,
                             inference::ModelConfigResponse& response) const {
  BW_ASSIGN_OR_RETURN(const serving::ModelPtr model,
                      FindModel(core_.models(), request.name(), request.version()));
  *response.mutable_config() = Config(*model);
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::ModelStatisticsRequest& request,
                             inference::ModelStatisticsResponse& response) const {
  std::vector<serving::ModelPtr> models = core_.models().AllServed();
  if (!request.name().empty()) {
    BW_ASSIGN_OR_RETURN(serving::ModelPtr model,
                        FindModel(core_.models(), request.name(), request.version()));
    models = {std::move(model)};
  }
  for (const serving::ModelPtr& model : models) {
    *response.add_model_stats() = Statistics(*model, core_.metrics().Totals(*model));
  }
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::RepositoryIndexRequest& request,
                             inference::RepositoryIndexResponse& response) const {
  if (!request.repository_name().empty()) {
    return absl::UnimplementedError("'repository_name' is not supported: repositories have none");
  }
  for (const v1::ModelSummary& model : core_.models().List()) {
    if (model.ready() || !request.ready()) {
      auto& entry = *response.add_models();
      entry.set_name(model.name());
      entry.set_version(model.version());
      entry.set_state(model.ready() ? "READY" : "UNAVAILABLE");
      entry.set_reason(model.reason());
    }
  }
  return absl::OkStatus();
}

absl::Status Service::Answer(const inference::LogSettingsRequest& request,
                             inference::LogSettingsResponse& response) const {
  if (!request.settings().empty()) {
    if (!model_control_) {
      return absl::FailedPreconditionError(
          "log settings are not changed by request here: the server was started without "
          "--model-control explicit");
    }
    BW_RETURN_IF_ERROR(ChangeLogSettings(request));
  }
  TellLogSettings(response);
  return absl::OkStatus();
}

}  // namespace beamwright::oip
