// Service: the Open Inference Protocol, version 2, over messages; gRPC and HTTP bring them here.
#ifndef BEAMWRIGHT_SERVER_OIP_SERVICE_H_
#define BEAMWRIGHT_SERVER_OIP_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"
#include "server/oip/infer.h"
#include "server/oip/sequences.h"
#include "server/serving/decode.h"
#include "server/serving/server_threads.h"

namespace beamwright::oip {

// Names of the input that carries the sources.
inline constexpr char kSourceText[] = "source_text";
inline constexpr char kSourceIds[] = "source_ids";
inline constexpr char kSourceFeatures[] = "source_features";
// Samples [sources, samples] at the model's rate, FP32 at full scale 1 or INT16, for models that
// hear sound.
inline constexpr char kSourceAudio[] = "source_audio";
// BYTES [sources] or [sources, 1], each a PNG or JPEG file, for models that read pictures.
inline constexpr char kSourcePicture[] = "source_picture";

// BYTES [1] or [1, 1], or ids [1, length]: what a language model goes on from.
inline constexpr char kPrompt[] = "prompt";

// The model of a request. Unlike in beamwright.v1 it must be named. NotFound, InvalidArgument for a
// version that is not a number.
absl::StatusOr<serving::ModelPtr> FindModel(const serving::ModelRegistry& models,
                                            const std::string& name, const std::string& version);

// The input that metadata names for a model with an encoder: text where it has a text form, else
// ids or features, without the axis of sources; -1 for an extent that the request chooses.
inference::ModelMetadataResponse::TensorMetadata SourceInput(const v1::ModelDescription& model);

// Thread-safe. The core must outlive it.
class Service {
 public:
  using Done = std::function<void(absl::StatusOr<inference::ModelInferResponse>)>;

  // `model_control`: whether clients may load and unload models, and change what is logged.
  explicit Service(serving::Core& core, bool model_control = false)
      : core_(core), model_control_(model_control) {}

  // `done` is called once, as by serving::Decode. A request that is an error is refused with it.
  void Infer(const absl::StatusOr<inference::ModelInferRequest>& request,
             const serving::Caller& caller, Done done);

  // The calls that only read. Errors: NotFound and InvalidArgument as FindModel's; Unimplemented
  // for what this server has no notion of.
  absl::Status Answer(const inference::ServerLiveRequest& request,
                      inference::ServerLiveResponse& response) const;
  absl::Status Answer(const inference::ServerReadyRequest& request,
                      inference::ServerReadyResponse& response) const;
  absl::Status Answer(const inference::ModelReadyRequest& request,
                      inference::ModelReadyResponse& response) const;
  absl::Status Answer(const inference::ServerMetadataRequest& request,
                      inference::ServerMetadataResponse& response) const;
  absl::Status Answer(const inference::ModelMetadataRequest& request,
                      inference::ModelMetadataResponse& response) const;
  absl::Status Answer(const inference::ModelConfigRequest& request,
                      inference::ModelConfigResponse& response) const;
  absl::Status Answer(const inference::ModelStatisticsRequest& request,
                      inference::ModelStatisticsResponse& response) const;
  absl::Status Answer(const inference::RepositoryIndexRequest& request,
                      inference::RepositoryIndexResponse& response) const;
  // FailedPrecondition for changes without model control; else as ChangeLogSettings.
  absl::Status Answer(const inference::LogSettingsRequest& request,
                      inference::LogSettingsResponse& response) const;

  // Loads the newest version of a model in place of what is served of it, or stops serving it.
  // `done` is called once, at once for what is refused (FailedPrecondition without model control,
  // InvalidArgument, Unimplemented for what only Triton has, Aborted while the model is being
  // loaded), else on a separate thread.
  using ControlDone = std::function<void(absl::Status)>;
  void Control(const inference::RepositoryModelLoadRequest& request, ControlDone done);
  void Control(const inference::RepositoryModelUnloadRequest& request, ControlDone done);

  serving::Core& core() const { return core_; }

 private:
  // Infer of a model in memory.
  void InferNow(const absl::StatusOr<inference::ModelInferRequest>& request,
                const serving::Caller& caller, Done done);
  template <typename Request>
  absl::Status CheckControl(const Request& request) const;

  serving::Core& core_;
  Sequences sequences_{core_};
  const bool model_control_;
  serving::TaskThread loader_{"bw-loader"};  // gRPC's threads are not for loading
};

// The Open Inference Protocol's log settings, as Triton has them, on the one level that the log
// has: log_error, log_warning, log_info (bools) and log_verbose_level (0, or more for debug
// messages). The least severe that is on decides.

// InvalidArgument for a setting that there is not or of a wrong type, Unimplemented for log_file
// and log_format, which are set at start; nothing has changed then.
absl::Status ChangeLogSettings(const inference::LogSettingsRequest& request);

void TellLogSettings(inference::LogSettingsResponse& response);

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_SERVICE_H_
