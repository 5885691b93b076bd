// DecodeModel: a bundle compiled for the beam driver. The decoder's loop body (or step graph)
// becomes the step program, its back edges the beam's state, its sliced input the token, its
// invariant inputs the request's memory; what the decoder graph computes before the loop runs once
// per request.
#ifndef BEAMWRIGHT_ENGINE_MODEL_DECODE_MODEL_H_
#define BEAMWRIGHT_ENGINE_MODEL_DECODE_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/model.pb.h"
#include "engine/bundle/bundle.h"
#include "ops/base/precision.h"
#include "ops/decoder/token_tables.h"
#include "ops/loop/loop_body.h"
#include "ops/loop/model.h"

namespace beamwright::engine {

// The precision of a model's weights: what its bundle asks for, or the caller instead.

// Every precision by its name: those that a user asks for, and those that only `auto` chooses, by
// the CPU: "bf16-dot", "bf16-amx" and "int8-core". For programs that measure, and for errors.

std::vector<std::string> AllPrecisionNames();

// One of AllPrecisionNames; InvalidArgument otherwise.
absl::StatusOr<v1::Precision> ParseAnyPrecision(absl::string_view name);

// InvalidArgument, with the way out, if only `auto` may choose it: for what a user asks for.
absl::Status CheckAskedPrecision(v1::Precision precision);

// How the parts of a model keep their constant weights.
struct PartPrecisions {
  absl::string_view name = "f32";  // in the numerics class
  Precision encoder = Precision::kF32;
  Precision steps = Precision::kF32;       // of the decoder, but for
  Precision projection = Precision::kF32;  // its product with the vocabulary, where it is split off
};

// What a user asks for: "f32", "bf16", "int8" and "auto".
std::vector<std::string> PrecisionNames();

// One of these; InvalidArgument otherwise.
absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view name);

// InvalidArgument for `auto`, which depends on the model (engine/auto_precision.h), and for
// a number that this version does not know.
absl::StatusOr<PartPrecisions> ResolvePrecision(v1::Precision precision);

class ParkedDrivers;
class SearchKind;

struct CompileOptions {
  // Instead of what model.textproto says.
  std::optional<v1::Precision> precision;
  // Most memory for tables of what a step computes from its token alone, as a multiple of the
  // decoder's weights (docs/architecture.md, 'Tables'). 0: none. Answers are the same, bit for bit.
  double token_table_share = 1;
  // What requests may ask for at most, in addition to the bundle's limits: the lower ones hold. 0:
  // no limit.
  int max_source_length = 0;
  int max_target_length = 0;
  int max_beam_size = 0;
  // Of a precision that `auto` chose; see DecodeModel::precision_note.
  std::shared_ptr<const std::string> precision_note;
  // How its sources are searched for (engine/request/request.h); null: by beam search.
  const SearchKind* search = nullptr;
  // Of what is computed to compile the model, and not looked at afterwards.
  ops::ExecutionContext context;
};

// Immutable and thread-safe.
class DecodeModel {
 public:
  // Errors name the graph, layer or field of model.textproto that does not fit. Includes the
  // self-check that stacking rows of several requests changes no bit. Precision `auto` compiles
  // and tries several (engine/auto_precision.h).
  static absl::StatusOr<std::shared_ptr<const DecodeModel>> Compile(
      bundle::Bundle bundle, const CompileOptions& options = {});
  ~DecodeModel();

  const std::string& name() const;
  const std::string& version() const;
  const v1::ModelConfig& config() const;
  const bundle::TextCodec& source() const;
  const bundle::TextCodec& target() const;
  int target_vocabulary_size() const;
  // The numerics class: answers of equal class are equal bit for bit.
  const std::string& numerics() const;
  // With precision `auto`: what the trial of each found, for the log. Else empty.
  std::string precision_note() const;
  // Of all that is multiplied for a source: its weights as they are kept, by the files' count of
  // elements.
  int64_t weight_bytes() const;
  // The tables per token, or the reason why they are missing.
  const ops::TokenTables& token_tables() const;
  // Whether sources come to an encoder, and whether those of several requests are encoded together:
  // only where it is proven that they cannot change each other's bits.
  bool has_encoder() const;
  // It has an encoder, which needs the whole source before it says anything.
  bool reads_whole_source() const;
  bool encodes_together() const;
  // Why they are not, with the node; empty if they are or if there is no encoder.
  std::string encodes_apart() const;
  // Whether sources of unequal length may be among those that are encoded together: each
  // leaves recurrent layers at its own end.
  bool encodes_lengths_together() const;
  // Why not, with the node; empty if so, or if there is no encoder.
  std::string lengths_apart() const;
  // Why the rows of all requests are not stepped together, with the decoder and the node; empty if
  // they are.
  std::string steps_apart() const;
  // The answer of DescribeModel.
  v1::ModelDescription Describe() const;

  // How its sources are searched for (engine/request/request.h).
  const SearchKind& search() const;

  // The compiled parts; for the engine.
  struct Parts;
  const Parts& parts() const { return *parts_; }
  // Buffers of drivers that decoded with it.
  ParkedDrivers& parked_drivers() const { return *parked_drivers_; }

 private:
  explicit DecodeModel(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
  std::unique_ptr<ParkedDrivers> parked_drivers_;  // they refer to the parts
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_DECODE_MODEL_H_
