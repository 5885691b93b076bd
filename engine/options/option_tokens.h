// Tokens that a request names: given targets, tokens in options, and the scorers of its `fusion`.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_OPTION_TOKENS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_OPTION_TOKENS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/options.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

// Tokens that a request gives for the target side.

// The ids that `field` names. InvalidArgument, beginning with the field: it is empty, has text
// that is not in the vocabulary, or an id outside it or of the blank.
absl::StatusOr<std::vector<int32_t>> ReadTokens(const DecodeModel& model, const std::string& field,
                                                const v1::TargetTokens& tokens);

// The ids of the targets of a source, `complete` of each. An empty target is no tokens if
// `may_be_empty`, else at fault. InvalidArgument naming all wrong targets, "targets[i]": as
// ReadTokens, too many of them, or too many tokens of one or of all.
absl::StatusOr<std::vector<search::TokenSequence>> ReadTargetList(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets,
    bool may_be_empty, absl::FunctionRef<void(search::TokenSequence&)> complete);

// What the model alone says of a search: vocabulary, begin, end and banned tokens.
void SetModelTokens(const DecodeModel& model, search::SearchOptions& search);

// Most target tokens, and the widest beam, that the model allows.
int MaxTargetLength(const DecodeModel& model);
int MaxBeamSize(const DecodeModel& model);

// OptionTokens: reads the target tokens that options name, and collects what is wrong on the way.
// What readers of options for the different searches share.

class OptionTokens {
 public:
  // Both must outlive it.
  OptionTokens(const DecodeModel& model, status::Faults& faults) : model_(model), faults_(faults) {}

  // A fault of "options.<field>", or of the options.
  template <typename... Pieces>
  void Add(absl::string_view field, const Pieces&... pieces) {
    faults_.Add(absl::StrCat(field.empty() ? "options" : "options.", field), pieces...);
  }

  // The ids that a field names; empty if it is wrong.
  std::vector<int32_t> Tokens(const std::string& field, const v1::TargetTokens& tokens);
  // The same of a field whose tokens have an order, at most 65,536.
  std::vector<int32_t> List(const std::string& field, const v1::TargetTokens& tokens);
  // The same of a field whose tokens have none: ascending, each once, and so not more than the
  // vocabulary has.
  std::vector<int32_t> Set(const std::string& field, const v1::TargetTokens& tokens);
  // At most 65,536 tokens, of hotwords 16,384, in all.
  std::vector<search::TokenSequence> Sequences(
      const std::string& field, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& list);
  std::vector<search::Hotword> Hotwords(const v1::DecodeOptions& options);
  // Tokens ascending, each once; of several biases of a token the last.
  std::vector<search::TokenBias> Biases(
      const google::protobuf::RepeatedPtrField<v1::LogitBias>& list);
  // The model's list of this name; null if unknown.
  std::shared_ptr<const search::TokenTrie> AllowedList(const std::string& name);

  const DecodeModel& model() const { return model_; }
  status::Faults& faults() { return faults_; }

 private:
  const DecodeModel& model_;
  status::Faults& faults_;
};

// From a request's `fusion` to the scorers of a search, or of given targets.

// Those whose weight is not 0. What is wrong is appended to `faults`: a name that the model does
// not have or that is given twice, a weight that is missing or that it does not allow, too many.
std::vector<search::ScorerWeight> ReadFusion(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::FusionWeight>& fusion,
    status::Faults& faults);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_OPTION_TOKENS_H_
