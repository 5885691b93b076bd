// OptionTokens: reads the target tokens that options name, and collects what is wrong on the way.
// What readers of options for the different searches share.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_OPTION_TOKENS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_OPTION_TOKENS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/options.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

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

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_OPTION_TOKENS_H_
