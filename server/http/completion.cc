#include "server/http/completion.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/bundle/strict_json.h"
#include "engine/bundle/text_codec.h"
#include "engine/status/fault.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/http/pending_reply.h"
#include "server/http/request_json.h"
#include "server/serving/decode.h"
#include "server/serving/decode_stream.h"

namespace beamwright::http {
namespace {

using google::protobuf::Value;
using Members = google::protobuf::Map<std::string, Value>;

constexpr char kCompletionFields[] =
    "model, prompt, max_tokens, temperature, top_p, n, best_of, logprobs, echo, stop, seed, "
    "logit_bias, stream, options";
constexpr int kMostStops = 16;

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

void ReadStops(const Value& value, std::vector<std::string>& stop, status::Faults& faults) {
  if (value.has_string_value()) {
    stop.push_back(value.string_value());
  } else {
    for (const Value& one : value.list_value().values()) {
      stop.push_back(one.string_value());
    }
  }
  const bool has_empty = std::find(stop.begin(), stop.end(), "") != stop.end();
  if (stop.empty() || has_empty || stop.size() > kMostStops) {
    faults.Add("stop", "is neither a text nor a list of 1 to ", kMostStops, " texts");
  }
}

// A bias of -100 rules a token out, which is the only one that is served.
void ReadBias(const Value& value, v1::DecodeOptions& options, status::Faults& faults) {
  for (const auto& [token, bias] : value.struct_value().fields()) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(token, &id) || !bias.has_number_value()) {
      faults.Add("logit_bias", "has '", Printable(token), "', which is no token id and its bias");
    } else if (bias.number_value() == -100) {
      options.mutable_suppress_tokens()->mutable_ids()->add_ids(id);
    } else if (bias.number_value() != 0) {
      faults.Add("logit_bias", "of token ", id, " is ", bias.number_value(),
                 "; served are -100, which rules a token out, and 0");
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
      body_.logprobs = *logprobs;
      options.set_top_tokens(*logprobs);
    }
    body_.echo = Flag("echo");
    body_.streams = Flag("stream");
    if (const Value* stop = Take("stop"); stop != nullptr) {
      ReadStops(*stop, body_.stop, faults_);
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
    Take("stream_options");
    for (const auto& [name, value] : members_) {
      faults_.Add(Printable(name.substr(0, 100)), "is no field of a completion; there are ",
                  kCompletionFields);
    }
    BW_RETURN_IF_ERROR(status::OkOrInvalid(faults_));
    return std::move(body_);
  }

 private:
  // Null if it is missing or null; members that are taken are known.
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
        faults_.Add("best_of", "is served with temperature 0, as the width of the beam");
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

// A choice of the answer.
struct Choice {
  std::string text;
  size_t num_tokens = 0;  // of the hypothesis, that belong to the text
  const char* finish = "stop";
};

// The text of a hypothesis behind its first `from` tokens.
std::string TextFrom(const engine::DecodeModel& model, const v1::Hypothesis& hypothesis, int from) {
  const auto begin = absl::MakeConstSpan(hypothesis.tokens().data(),
                                         static_cast<size_t>(hypothesis.tokens_size()));
  const std::string before = model.target().Decode(begin.first(static_cast<size_t>(from)));
  return absl::StartsWith(hypothesis.text(), before)
             ? hypothesis.text().substr(before.size())
             : model.target().Decode(begin.subspan(static_cast<size_t>(from)));
}

Choice ChoiceOf(const engine::DecodeModel& model, const CompletionBody& asked,
                const v1::Hypothesis& hypothesis) {
  Choice choice;
  choice.num_tokens = static_cast<size_t>(hypothesis.tokens_size());
  choice.finish = hypothesis.finish_reason() == v1::FINISH_REASON_EOS ? "stop" : "length";
  choice.text = TextFrom(model, hypothesis, hypothesis.prefix_length());
  const size_t stop = FindStop(choice.text, asked.stop, 0);
  if (stop != std::string::npos) {
    choice.finish = "stop";
    choice.text.resize(stop);
    // The fewest tokens whose text reaches the stop; texts grow with their tokens.
    const auto reaches = [&](int count) {
      v1::Hypothesis part = hypothesis;
      part.mutable_tokens()->Truncate(count);
      part.set_text(model.target().Decode(
          absl::MakeConstSpan(part.tokens().data(), static_cast<size_t>(count))));
      return TextFrom(model, part, hypothesis.prefix_length()).size() >= stop;
    };
    int low = hypothesis.prefix_length();
    for (int high = hypothesis.tokens_size(); low < high;) {
      const int middle = low + (high - low) / 2;
      reaches(middle) ? high = middle : low = middle + 1;
    }
    choice.num_tokens = static_cast<size_t>(low);
  }
  return choice;
}

// OpenAI's lists, one element for each token: its text, log-probability, and the most probable
// ones.
void WriteLogProbs(const engine::DecodeModel& model, const CompletionBody& asked,
                   const v1::Hypothesis& hypothesis, const Choice& choice, JsonWriter& json) {
  if (asked.logprobs < 0) {
    json.Null();
    return;
  }
  const int first = asked.echo ? 0 : hypothesis.prefix_length();
  const auto last = static_cast<int>(choice.num_tokens);
  json.BeginObject().Key("tokens").BeginArray();
  for (int i = first; i < last; ++i) {
    json.String(model.target().TokenText(hypothesis.tokens(i)));
  }
  json.EndArray().Key("token_logprobs").BeginArray();
  for (int i = first; i < last; ++i) {
    json.Float(hypothesis.token_log_probs(i));
  }
  json.EndArray().Key("top_logprobs");
  if (hypothesis.top_tokens_size() < last) {
    json.Null();
  } else {
    json.BeginArray();
    for (int i = first; i < last; ++i) {
      const v1::TopTokens& top = hypothesis.top_tokens(i);
      json.BeginObject();
      for (int j = 0; j < top.tokens_size(); ++j) {
        json.Key(model.target().TokenText(top.tokens(j))).Float(top.log_probs(j));
      }
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
}

// {"id": .., "object": "text_completion", "created": .., "model": .., "choices": [
JsonWriter& BeginCompletion(const std::string& id, const std::string& model, JsonWriter& json) {
  json.BeginObject().Key("id").String(id).Key("object").String("text_completion");
  json.Key("created").Int(absl::ToUnixSeconds(absl::Now()));
  return json.Key("model").String(model).Key("choices").BeginArray();
}

std::string NewId() { return absl::StrCat("cmpl-", absl::ToUnixNanos(absl::Now())); }

HttpReply CompletionReply(const engine::DecodeModel& model, const CompletionBody& asked,
                          const v1::Decoded& decoded) {
  JsonWriter json;
  BeginCompletion(NewId(), asked.request.model(), json);
  int num_prompt = 0;
  int64_t num_tokens = 0;
  for (int i = 0; i < decoded.hypotheses_size(); ++i) {
    const v1::Hypothesis& hypothesis = decoded.hypotheses(i);
    const Choice choice = ChoiceOf(model, asked, hypothesis);
    num_prompt = hypothesis.prefix_length();
    num_tokens += static_cast<int64_t>(choice.num_tokens) - num_prompt;
    const std::string prompt =
        asked.echo ? model.target().Decode(absl::MakeConstSpan(hypothesis.tokens().data(),
                                                               static_cast<size_t>(num_prompt)))
                   : "";
    json.BeginObject().Key("index").Int(i).Key("text").String(absl::StrCat(prompt, choice.text));
    json.Key("logprobs");
    WriteLogProbs(model, asked, hypothesis, choice, json);
    json.Key("finish_reason").String(choice.finish).EndObject();
  }
  json.EndArray().Key("usage").BeginObject();
  json.Key("prompt_tokens").Int(num_prompt).Key("completion_tokens").Int(num_tokens);
  json.Key("total_tokens").Int(num_prompt + num_tokens).EndObject().EndObject();
  return JsonReply(json);
}

// The events of a stream; messages are taken on one worker at a time.
class CompletionEvents final : public PendingReply {
 public:
  CompletionEvents(const HttpRequest& request, serving::Core& core, CompletionBody body,
                   serving::ModelPtr model)
      : open_(core.state()),
        state_(core.state()),
        abandoned_(request.abandoned),
        body_(std::move(body)),
        model_(std::move(model)) {}
  ~CompletionEvents() override { cancelled_->Cancel(); }

  void Start(serving::Core& core, serving::Caller caller) {
    caller.cancelled = cancelled_;
    stream_ = serving::DecodeStream::Start(core, body_.request, caller,
                                           [bell = bell()] { bell->Ring(); });
  }

  std::optional<HttpReply> Take() override {
    Advance();
    if (has_ended_ && !end_.ok() && !has_sent_) {
      return ErrorReply(end_);
    }
    if (events_.empty() && !has_ended_) {
      return std::nullopt;
    }
    HttpReply reply;
    reply.content_type = "text/event-stream";
    reply.headers = {{"Cache-Control", "no-cache"}};
    reply.next_piece = [this](std::string& piece) { return NextPiece(piece); };
    return reply;
  }

  void Look() override {
    if (abandoned_() || state_.phase() == serving::Phase::kEnding) {
      cancelled_->Cancel();
    }
  }

 private:
  // Of one sample.
  struct Sent {
    size_t bytes = 0;  // of its text behind the prompt
    bool is_done = false;
  };

  bool NextPiece(std::string& piece) {
    Advance();
    if (events_.empty() && has_ended_) {
      if (has_sent_end_) {
        return false;
      }
      has_sent_end_ = true;
      piece = end_.ok() ? "data: [DONE]\n\n" : absl::StrCat("data: ", ErrorReply(end_).body, "\n");
      return true;
    }
    piece = std::exchange(events_, "");
    return true;
  }

  void Advance() {
    while (!has_ended_) {
      v1::StreamDecodeResponse message;
      switch (stream_->Take(message, end_)) {
        case serving::DecodeStream::Taken::kNothing:
          return;
        case serving::DecodeStream::Taken::kEnd:
          has_ended_ = true;
          end_ = all_stopped_ ? absl::OkStatus() : end_;
          return;
        case serving::DecodeStream::Taken::kMessage:
          break;
      }
      if (message.has_decoded()) {
        AddAnswer(message.decoded());
        continue;
      }
      for (const v1::StableTokens& stable : message.stable()) {
        AddStable(stable);
      }
    }
  }

  void AddStable(const v1::StableTokens& stable) {
    Sent& sent = sent_[stable.sample()];
    std::string& prompt = PromptText();
    if (sent.is_done || !absl::StartsWith(stable.text(), prompt)) {
      return;
    }
    const std::string text = stable.text().substr(prompt.size());
    const size_t stop = FindStop(text, body_.stop, 0);
    const size_t safe = stop == std::string::npos ? SafeLength(text, body_.stop) : stop;
    AddEvent(stable.sample(), text, safe, stop == std::string::npos ? nullptr : "stop");
    // What follows would not be sent.
    all_stopped_ = body_.request.options().n_best() <= 1 && sent.is_done;
    if (all_stopped_) {
      cancelled_->Cancel();
    }
  }

  void AddAnswer(const v1::Decoded& decoded) {
    for (int i = 0; i < decoded.hypotheses_size(); ++i) {
      const Choice choice = ChoiceOf(*model_, body_, decoded.hypotheses(i));
      if (!sent_[i].is_done) {
        AddEvent(i, choice.text, choice.text.size(), choice.finish);
      }
    }
  }

  // The text up to `length`, of which some was sent; finish: null while it goes on.
  void AddEvent(int index, const std::string& text, size_t length, const char* finish) {
    Sent& sent = sent_[index];
    if (length <= sent.bytes && finish == nullptr) {
      return;
    }
    std::string piece = length > sent.bytes ? text.substr(sent.bytes, length - sent.bytes) : "";
    if (body_.echo && sent.bytes == 0) {
      piece.insert(0, PromptText());
    }
    JsonWriter json;
    BeginCompletion(id_, body_.request.model(), json);
    json.BeginObject().Key("index").Int(index).Key("text").String(piece).Key("logprobs").Null();
    json.Key("finish_reason");
    finish == nullptr ? json.Null() : json.String(finish);
    json.EndObject().EndArray().EndObject();
    absl::StrAppend(&events_, "data: ", json.text(), "\n\n");
    has_sent_ = true;
    sent.bytes = std::max(sent.bytes, length);
    sent.is_done = finish != nullptr;
  }

  // As the target's codec writes it, which stable texts begin with.
  std::string& PromptText() {
    if (!prompt_.has_value()) {
      const v1::TargetTokens& prefix = body_.request.options().target_prefix();
      std::vector<int32_t> ids(prefix.ids().ids().begin(), prefix.ids().ids().end());
      if (prefix.kind_case() == v1::TargetTokens::kText) {
        ids = model_->target().EncodePart(prefix.text()).value_or(std::vector<int32_t>());
      }
      prompt_ = model_->target().Decode(ids);
    }
    return *prompt_;
  }

  const serving::ServingState::OpenCall open_;
  const serving::ServingState& state_;
  const std::function<bool()> abandoned_;
  const CompletionBody body_;
  const serving::ModelPtr model_;
  const std::string id_ = NewId();
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
  std::shared_ptr<serving::DecodeStream> stream_;
  std::optional<std::string> prompt_;
  std::map<int, Sent> sent_;  // by sample
  std::string events_;
  bool all_stopped_ = false;
  bool has_sent_ = false;
  bool has_ended_ = false;
  bool has_sent_end_ = false;
  absl::Status end_;
};

HttpReply StartCompletion(const HttpRequest& request, serving::Core& core, const Asked& asked,
                          CompletionBody body, const serving::ModelPtr& model) {
  if (body.streams) {
    serving::Caller caller{asked.method, SteadyNow() + asked.timeout};
    caller.context = ContextOf(request);
    caller.tenant = asked.identity.tenant;
    caller.priority = asked.identity.priority;
    const auto events = std::make_shared<CompletionEvents>(request, core, std::move(body), model);
    events->Start(core, std::move(caller));
    HttpReply reply;
    reply.later = events;
    return reply;
  }
  const auto kept = std::make_shared<const CompletionBody>(std::move(body));
  return AnswerLater<v1::DecodeResponse>(
      request, core.state(), asked,
      [&](const serving::Caller& caller, serving::DecodeDone done) {
        v1::DecodeRequest decode;
        decode.set_model(kept->request.model());
        *decode.mutable_options() = kept->request.options();
        decode.add_sources();
        serving::Decode(core, std::move(decode), caller, std::move(done));
      },
      [kept, model](const absl::StatusOr<v1::DecodeResponse>& answer) {
        return answer.ok() ? CompletionReply(*model, *kept, answer->results(0).decoded())
                           : ErrorReply(answer.status());
      });
}

}  // namespace

size_t FindStop(absl::string_view text, const std::vector<std::string>& stop, size_t from) {
  size_t first = std::string::npos;
  for (const std::string& one : stop) {
    first = std::min(first, text.find(one, from));
  }
  return first;
}

size_t SafeLength(absl::string_view text, const std::vector<std::string>& stop) {
  size_t safe = text.size();
  for (const std::string& one : stop) {
    for (size_t length = std::min(one.size() - 1, text.size()); length > 0; --length) {
      if (absl::EndsWith(text, one.substr(0, length))) {
        safe = std::min(safe, text.size() - length);
        break;
      }
    }
  }
  return safe;
}

absl::StatusOr<CompletionBody> ReadCompletionBody(const std::string& body) {
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(body));
  google::protobuf::Struct members;
  if (!google::protobuf::util::JsonStringToMessage(body, &members).ok()) {
    return Invalid("the body is not a JSON object");
  }
  BW_RETURN_IF_ERROR(bundle::CheckStrictJson(body));
  return CompletionReader(std::move(*members.mutable_fields())).Read();
}

HttpReply Complete(const HttpRequest& request, serving::Core& core, const Asked& asked) {
  absl::StatusOr<CompletionBody> body = ReadCompletionBody(request.body);
  absl::Status status = body.status();
  serving::ModelPtr model;
  if (status.ok()) {
    absl::StatusOr<serving::ModelPtr> found = core.models().Lookup(body->request.model(), "");
    status = found.status();
    model = found.ok() ? *std::move(found) : nullptr;
  }
  if (!status.ok()) {
    serving::Caller caller{asked.method};
    caller.context = ContextOf(request);
    core.calls().Refuse(status, caller);
    return ErrorReply(status);
  }
  return StartCompletion(request, core, asked, *std::move(body), model);
}

}  // namespace beamwright::http
