// The body of POST /v1/completions as a DecodeRequest. A CompletionReader takes the members one by
// one (Take, Text, Flag, Int, Number), checks each and collects all faults; members that are left
// over are unknown, and named.
//
// 1. `options`, our extension, is read first as DecodeOptions; other members then override it.
// 2. ReadPrompt: a text, ids, or a list with one of them becomes the target prefix.
// 3. ReadSampling maps OpenAI's sampling to the search's: temperature 0 is a beam search, other
//    temperatures draw samples; n is the number of samples, best_of more of them, of which the n
//    best are returned (most_choices).
// 4. ReadStops, ReadBias: stop strings; a bias of -100 bans a token.
// 5. Members that cannot be served are errors and not ignored (presence_penalty, suffix), unless
//    their value changes nothing.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/http/message_json.h"
#include "server/http/routes.h"

namespace beamwright::http {
namespace {

using google::protobuf::Value;
using Members = google::protobuf::Map<std::string, Value>;

constexpr char kCompletionFields[] =
    "model, prompt, max_tokens, temperature, top_p, n, best_of, logprobs, echo, stop, seed, "
    "logit_bias, stream, options";

std::optional<int> WholeNumber(const Value& value, int least, int most) {
  const double number = value.number_value();
  return value.has_number_value() && number >= least && number <= most &&
                 number == std::floor(number)
             ? std::optional<int>(static_cast<int>(number))
             : std::nullopt;
}

// The prompt: a text or ids, or a list of one of them.
void ReadPrompt(const Value& value, v1::DecodeOptions& options, status::Faults& faults) {
  constexpr int kMostId = 1 << 30;
  if (value.has_string_value()) {
    if (!value.string_value().empty()) {
      options.mutable_target_prefix()->set_text(value.string_value());
    }
    return;
  }
  const auto& list = value.list_value().values();
  if (value.has_list_value() && list.size() == 1 && !list[0].has_number_value()) {
    ReadPrompt(list[0], options, faults);
    return;
  }
  bool are_ids = value.has_list_value();
  std::vector<int> ids;
  for (const Value& one : list) {
    const std::optional<int> id = WholeNumber(one, 0, kMostId);
    are_ids = are_ids && id.has_value();
    ids.push_back(id.value_or(0));
  }
  if (!are_ids) {
    faults.Add("prompt", "is no text and no list of token ids; one prompt a call");
  } else if (!ids.empty()) {
    options.mutable_target_prefix()->mutable_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  }
}

void ReadStops(const Value& value, v1::DecodeOptions& options, status::Faults& faults) {
  options.clear_stop_strings();
  if (value.has_string_value()) {
    options.add_stop_strings(value.string_value());
    return;
  }
  bool are_texts = value.has_list_value();
  for (const Value& one : value.list_value().values()) {
    are_texts = are_texts && one.has_string_value();
    options.add_stop_strings(one.string_value());
  }
  if (!are_texts) {
    faults.Add("stop", "is neither a text nor a list of texts");
  }
}

// As OpenAI defines it: -100 rules a token out, whatever the logits.
void ReadBias(const Value& value, v1::DecodeOptions& options, status::Faults& faults) {
  constexpr size_t kMost = size_t{1} << 14;
  const auto& biases = value.struct_value().fields();
  if (biases.size() > kMost) {
    faults.Add("logit_bias", "has ", biases.size(), " tokens; at most ", kMost, " are allowed");
    return;
  }
  for (const auto& [token, bias] : biases) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(token, &id) || !bias.has_number_value()) {
      faults.Add("logit_bias", "has '", Printable(token), "', which is no token id and its bias");
    } else if (bias.number_value() == -100) {
      options.mutable_suppress_tokens()->mutable_ids()->add_ids(id);
    } else if (std::abs(bias.number_value()) > 100) {
      faults.Add("logit_bias", "of token ", id, " is ", bias.number_value(),
                 ", which is no number from -100 to 100");
    } else if (bias.number_value() != 0) {
      v1::LogitBias& added = *options.add_logit_bias();
      added.mutable_ids()->add_ids(id);
      added.set_bias(static_cast<float>(bias.number_value()));
    }
  }
}

class CompletionReader {
 public:
  explicit CompletionReader(Members members) : members_(std::move(members)) {}

  absl::StatusOr<CompletionBody> Read() {
    v1::DecodeOptions& options = *body_.request.mutable_options();
    body_.request.set_model(Text("model"));
    if (body_.request.model().empty()) {
      faults_.Add("model", "is not set");
    }
    if (const Value* own = Take("options"); own != nullptr) {
      std::string json;
      const bool is_written = google::protobuf::util::MessageToJsonString(*own, &json).ok();
      const absl::Status status = is_written
                                      ? status::AtField(ReadRequest(json, options), "options")
                                      : status::InvalidField("options", "is no DecodeOptions");
      if (!status.ok()) {
        const status::Faults found = status::FaultsOf(status);
        faults_.insert(faults_.end(), found.begin(), found.end());
      }
      has_options_ = true;
    }
    if (const Value* prompt = Take("prompt"); prompt != nullptr) {
      ReadPrompt(*prompt, options, faults_);
    }
    options.set_max_length(Int("max_tokens", 1, 65536).value_or(16));
    ReadSampling(options);
    if (const auto logprobs = Int("logprobs", 0, 64); logprobs.has_value()) {
      if (*logprobs > 0 && options.sampling() == v1::SAMPLING_RANDOM) {
        faults_.Add("logprobs", "above 0 needs temperature 0");
      }
      body_.logprobs = *logprobs;
      options.set_top_tokens(*logprobs);
    }
    body_.echo = Flag("echo");
    body_.streams = Flag("stream");
    if (body_.streams && body_.most_choices > 0) {
      faults_.Add("best_of", "is more than n: which are the best is not known while they are sent");
    }
    if (const Value* stop = Take("stop"); stop != nullptr) {
      ReadStops(*stop, options, faults_);
    }
    if (const Value* bias = Take("logit_bias"); bias != nullptr) {
      ReadBias(*bias, options, faults_);
    }
    for (const char* const name : {"presence_penalty", "frequency_penalty"}) {
      if (Number(name, -2, 2).value_or(0) != 0) {
        faults_.Add(name, "is not served; see options.repetition_penalty");
      }
    }
    if (!Text("suffix").empty()) {
      faults_.Add("suffix", "is not served");
    }
    Take("user");
    if (const Value* options_of_stream = Take("stream_options"); options_of_stream != nullptr) {
      const auto& fields = options_of_stream->struct_value().fields();
      const auto it = fields.find("include_usage");
      body_.counts_streamed = it != fields.end() && it->second.bool_value();
    }
    constexpr size_t kMostFaults = 20;
    for (const auto& [name, value] : members_) {
      if (faults_.size() >= kMostFaults) {
        break;
      }
      faults_.Add(Printable(name.substr(0, 100)), "is no field of a completion; there are ",
                  kCompletionFields);
    }
    BW_RETURN_IF_ERROR(status::OkOrInvalid(faults_));
    return std::move(body_);
  }

 private:
  // Takes a member out of the body; null if it is missing or null.
  const Value* Take(const std::string& name) {
    const auto it = members_.find(name);
    if (it == members_.end()) {
      return nullptr;
    }
    const Value& value = taken_[name] = std::move(it->second);
    members_.erase(it);
    return value.has_null_value() ? nullptr : &value;
  }
  std::string Text(const char* name) {
    const Value* const value = Take(name);
    if (value != nullptr && !value->has_string_value()) {
      faults_.Add(name, "is no text");
    }
    return value == nullptr ? "" : value->string_value();
  }
  bool Flag(const char* name) {
    const Value* const value = Take(name);
    if (value != nullptr && !value->has_bool_value()) {
      faults_.Add(name, "is neither true nor false");
    }
    return value != nullptr && value->bool_value();
  }
  std::optional<int> Int(const char* name, int least, int most) {
    const Value* const value = Take(name);
    const auto number = value == nullptr ? std::nullopt : WholeNumber(*value, least, most);
    if (value != nullptr && !number.has_value()) {
      faults_.Add(name, "is no whole number from ", least, " to ", most);
    }
    return number;
  }
  std::optional<double> Number(const char* name, double least, double most) {
    const Value* const value = Take(name);
    if (value == nullptr) {
      return std::nullopt;
    }
    const double number = value->number_value();
    if (!value->has_number_value() || !(number >= least && number <= most)) {
      faults_.Add(name, "is no number from ", least, " to ", most);
      return std::nullopt;
    }
    return number;
  }

  // Sampling with temperature 1, unless the temperature is 0 or the model's own options are asked
  // for.
  void ReadSampling(v1::DecodeOptions& options) {
    const std::optional<double> temperature = Number("temperature", 0, 2);
    const std::optional<double> top_p = Number("top_p", 0, 1);
    const std::optional<int> n = Int("n", 1, 256);
    const std::optional<int> best_of = Int("best_of", 1, 256);
    const std::optional<int> seed = Int("seed", 0, 1 << 30);
    if (best_of.value_or(256) < n.value_or(1)) {
      faults_.Add("best_of", "is ", *best_of, ", less than n, which is ", n.value_or(1));
    }
    if (n.has_value()) {
      options.set_n_best(*n);
    }
    if (seed.has_value()) {
      options.set_seed(static_cast<uint32_t>(*seed));
    }
    if (temperature.value_or(1) == 0) {
      options.set_beam_size(std::max(best_of.value_or(1), n.value_or(1)));
      return;
    }
    if (temperature.has_value() || !has_options_) {
      options.set_sampling(v1::SAMPLING_RANDOM);
      options.set_temperature(static_cast<float>(temperature.value_or(1)));
      if (top_p.has_value()) {
        options.set_top_p(static_cast<float>(*top_p));
      }
      if (best_of.has_value() && *best_of != n.value_or(1)) {
        options.set_n_best(*best_of);
        body_.most_choices = n.value_or(1);
      }
    } else if (best_of.has_value()) {
      options.set_beam_size(*best_of);
    }
  }

  Members members_;
  std::map<std::string, Value> taken_;
  CompletionBody body_;
  status::Faults faults_;
  bool has_options_ = false;
};

}  // namespace

absl::StatusOr<CompletionBody> ReadCompletionBody(const std::string& body) {
  BW_ASSIGN_OR_RETURN(google::protobuf::Struct members, ReadObject(body));
  return CompletionReader(std::move(*members.mutable_fields())).Read();
}

}  // namespace beamwright::http
