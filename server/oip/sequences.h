// Sequences: a source that comes in several inference requests, as Triton's clients send them: the
// parameters `sequence_id`, `sequence_start` and `sequence_end`. Together they are one Recognize
// call (serving::Recognition). Every request is answered at once with the best hypothesis that is
// known by then, the last one with the answer; so the sender hears its words while it speaks.
#ifndef BEAMWRIGHT_SERVER_OIP_SEQUENCES_H_
#define BEAMWRIGHT_SERVER_OIP_SEQUENCES_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "inference/grpc_service.pb.h"
#include "ops/base/threads.h"
#include "server/oip/infer.h"
#include "server/serving/caller.h"
#include "server/serving/core.h"

namespace beamwright::oip {

// The parameters of a request that is part of a sequence.
struct SequencePart {
  std::string id;
  bool is_start = false;
  bool is_end = false;
};

// InvalidArgument: a parameter of sequences of the wrong type. An empty id: it is part of none.
absl::StatusOr<SequencePart> ReadSequencePart(
    const google::protobuf::Map<std::string, inference::InferParameter>& parameters);

// The idle time after which a sequence is given up.
inline constexpr absl::Duration kMostSequenceIdle = absl::Minutes(1);

// Thread-safe. The core must outlive it. Callers of another tenant have separate sequences.
class Sequences {
 public:
  using Done = std::function<void(absl::StatusOr<inference::ModelInferResponse>)>;

  // A sequence without a request for `idle` is given up.
  explicit Sequences(serving::Core& core, absl::Duration idle = kMostSequenceIdle);
  ~Sequences();

  // The next part of the source. `done` is called once. InvalidArgument where the sequence has not
  // begun, or has ended. Options are those of the first request.
  void Infer(const SequencePart& part, InferJob job, const serving::Caller& caller, Done done);

 private:
  class Sequence;
  // Name of the tenant, which is another object once the files of access were read again; model,
  // id.
  using Key = std::tuple<std::string, std::string, std::string>;

  absl::StatusOr<std::shared_ptr<Sequence>> Find(const Key& key, const SequencePart& part);
  std::shared_ptr<Sequence> Begin(const Key& key, const SequencePart& part, const InferJob& job,
                                  const serving::Caller& caller);
  // Gives up idle sequences.
  void Look();

  serving::Core& core_;
  const absl::Duration idle_;
  absl::Mutex mutex_;
  std::map<Key, std::shared_ptr<Sequence>> sequences_ ABSL_GUARDED_BY(mutex_);
  // From the first sequence on. Last: it uses the others.
  std::optional<PeriodicThread> watch_;
};

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_SEQUENCES_H_
