// ProcessModel: a model with a separate engine, and its calls as those of the server: the same
// messages in and out, the same errors, answers of the same bits. The C interface
// (include/beamwright/beamwright.h) is a thin layer above it.
#ifndef BEAMWRIGHT_LIBRARY_PROCESS_MODEL_H_
#define BEAMWRIGHT_LIBRARY_PROCESS_MODEL_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "include/beamwright/engine.h"

namespace beamwright::library {

struct LoadOptions {
  int num_threads = 0;  // 0: as many as CPU affinity and cgroup allow
  int max_rows = 1024;
  std::optional<v1::Precision> precision;  // instead of what the bundle says
  int golden_requests = 100;               // below 1: none
};

// Thread-safe.
class ProcessModel {
 public:
  // Loads the bundle at `path`, or the newest version of a model's folder, and tries it out as a
  // server does. It runs on a separate thread: the caller gets no OpenMP
  // threads, which a fork would leave behind.
  static absl::StatusOr<std::unique_ptr<ProcessModel>> Load(const std::string& path,
                                                            const LoadOptions& options);

  // Each waits for its answer, at most until the deadline. A call fails as a whole for faults of
  // the request, or if all of its sources fail; errors are those of the server's calls.
  absl::StatusOr<v1::DecodeResponse> Decode(v1::DecodeRequest request, absl::Time deadline);
  absl::StatusOr<v1::ScoreResponse> Score(v1::ScoreRequest request, absl::Time deadline);
  absl::StatusOr<v1::AlignResponse> Align(v1::AlignRequest request, absl::Time deadline);
  v1::ModelDescription Describe() const { return model_->Describe(); }

 private:
  using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

  ProcessModel(ModelPtr model, std::unique_ptr<engine::Engine> engine)
      : model_(std::move(model)), engine_(std::move(engine)) {}
  static absl::StatusOr<std::unique_ptr<ProcessModel>> LoadHere(const std::string& path,
                                                                const LoadOptions& options);
  // Whether a request asks for this model.
  absl::Status CheckName(const std::string& name, const std::string& version) const;
  engine::CallOptions CallOf(absl::Time deadline);
  absl::StatusOr<v1::ScoreResponse> ScoreAs(v1::ScoreRequest request, absl::Time deadline,
                                            bool aligns);

  const ModelPtr model_;
  const std::unique_ptr<engine::Engine> engine_;
  std::atomic<uint64_t> next_call_{1};
};

}  // namespace beamwright::library

#endif  // BEAMWRIGHT_LIBRARY_PROCESS_MODEL_H_
