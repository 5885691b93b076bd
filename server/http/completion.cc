#include "server/http/completion.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/bundle/text_codec.h"
#include "ops/base/json_writer.h"
#include "server/http/event_queue.h"
#include "server/serving/decode.h"
#include "server/serving/decode_stream.h"

namespace beamwright::http {
namespace {

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
class CompletionEvents final : public CancellableReply {
 public:
  CompletionEvents(const HttpRequest& request, serving::Core& core, CompletionBody body,
                   serving::ModelPtr model)
      : CancellableReply(request, core.state()),
        open_(core.state()),
        body_(std::move(body)),
        model_(std::move(model)) {}

  void Start(const HttpRequest& request, serving::Core& core, const Asked& asked) {
    stream_ =
        serving::DecodeStream::Start(core, body_.request, CallerOf(request, asked, cancelled()),
                                     [bell = bell()] { bell->Ring(); });
  }

  std::optional<HttpReply> Take() override {
    Advance();
    if (has_ended_ && !end_.ok() && !has_events_) {
      return ErrorReply(end_);
    }
    if (events_.is_empty()) {
      return std::nullopt;
    }
    return EventReply([this](std::string& piece) {
      Advance();
      return events_.NextPiece(piece);
    });
  }

 private:
  // Of one sample.
  struct Sent {
    size_t bytes = 0;  // of its text behind the prompt
    bool is_done = false;
  };

  void Advance() {
    while (!has_ended_) {
      v1::StreamDecodeResponse message;
      switch (stream_->Take(message, end_)) {
        case serving::DecodeStream::Taken::kNothing:
          return;
        case serving::DecodeStream::Taken::kEnd:
          has_ended_ = true;
          end_ = all_stopped_ ? absl::OkStatus() : end_;
          events_.End(end_, "[DONE]");
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
    const absl::string_view text = absl::string_view(stable.text()).substr(prompt.size());
    // No stop begins in what was sent: SafeLength holds back all that may begin one.
    const size_t stop = FindStop(text, body_.stop, sent.bytes);
    const size_t safe = stop == std::string::npos ? SafeLength(text, body_.stop) : stop;
    AddEvent(stable.sample(), text, safe, stop == std::string::npos ? nullptr : "stop");
    // What follows would not be sent.
    all_stopped_ = body_.request.options().n_best() <= 1 && sent.is_done;
    if (all_stopped_) {
      cancelled()->Cancel();
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
  void AddEvent(int index, absl::string_view text, size_t length, const char* finish) {
    Sent& sent = sent_[index];
    if (length <= sent.bytes && finish == nullptr) {
      return;
    }
    std::string piece(length > sent.bytes ? text.substr(sent.bytes, length - sent.bytes) : "");
    if (body_.echo && sent.bytes == 0) {
      piece.insert(0, PromptText());
    }
    JsonWriter json;
    BeginCompletion(id_, body_.request.model(), json);
    json.BeginObject().Key("index").Int(index).Key("text").String(piece).Key("logprobs").Null();
    json.Key("finish_reason");
    finish == nullptr ? json.Null() : json.String(finish);
    json.EndObject().EndArray().EndObject();
    events_.Add(json.text());
    has_events_ = true;
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
  const CompletionBody body_;
  const serving::ModelPtr model_;
  const std::string id_ = NewId();
  std::shared_ptr<serving::DecodeStream> stream_;
  std::optional<std::string> prompt_;
  std::map<int, Sent> sent_;  // by sample
  EventQueue events_;
  bool has_events_ = false;  // besides that of the end
  bool all_stopped_ = false;
  bool has_ended_ = false;
  absl::Status end_;
};

HttpReply StartCompletion(const HttpRequest& request, serving::Core& core, const Asked& asked,
                          CompletionBody body, const serving::ModelPtr& model) {
  if (body.streams) {
    const auto events = std::make_shared<CompletionEvents>(request, core, std::move(body), model);
    events->Start(request, core, asked);
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
