// OpenAI's completions as Decode calls of a language model. The body was read by
// completion_json.cc: the prompt is the target prefix of an empty source, `n` and `best_of` are
// samples.
//
// 1. Complete finds the model; StartCompletion makes a Decode call whose answer becomes one JSON
//    object (CompletionReply), or a stream of events (CompletionEvents).
// 2. ChoiceOf takes the text behind the prompt (TextFrom); Chosen keeps the best samples by mean
//    log-probability, where best_of asks for more than n; WriteLogProbs writes OpenAI's four
//    parallel lists.
// 3. CompletionEvents pulls messages of a DecodeStream when the bell rings (Advance). Stable tokens
//    become events with the text that was not sent yet (AddEvent, by sample in `sent_`); the answer
//    ends each choice; then usage and "[DONE]".
//
//   {"prompt":"The capital of France","max_tokens":4,"stream":true}
//     data: {"id":"cmpl-1","choices":[{"index":0,"text":" is Paris","finish_reason":null}]}
//     data: {"id":"cmpl-1","choices":[{"index":0,"text":".","finish_reason":"length"}]}
//     data: [DONE]
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "engine/bundle/text_codec.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/utf8.h"
#include "server/http/event_queue.h"
#include "server/http/routes.h"
#include "server/serving/decode.h"
#include "server/serving/decode_stream.h"

namespace beamwright::http {
namespace {

// A choice of the answer.
struct Choice {
  std::string text;  // behind the prompt
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

Choice ChoiceOf(const engine::DecodeModel& model, const v1::Hypothesis& hypothesis) {
  Choice choice;
  choice.finish = hypothesis.finish_reason() == v1::FINISH_REASON_EOS ||
                          hypothesis.finish_reason() == v1::FINISH_REASON_STOP
                      ? "stop"
                      : "length";
  choice.text = TextFrom(model, hypothesis, hypothesis.prefix_length());
  return choice;
}

// For each token the last one before it that writes something; -1: there is none.
std::vector<int32_t> WrittenBefore(const bundle::TextCodec& codec,
                                   const v1::Hypothesis& hypothesis) {
  std::vector<int32_t> before;
  int32_t last = -1;
  for (const int32_t id : hypothesis.tokens()) {
    before.push_back(last);
    const bool is_silent = id == codec.begin_id() || id == codec.pad_id() ||
                           absl::c_linear_search(codec.end_ids(), id);
    last = is_silent ? last : id;
  }
  return before;
}

// OpenAI's lists, one element for each token: its text, log-probability, and the most probable
// ones (of those that write nothing, such as the end, the name in the vocabulary).
void WriteLogProbs(const engine::DecodeModel& model, const CompletionBody& asked,
                   const v1::Hypothesis& hypothesis, JsonWriter& json) {
  if (asked.logprobs < 0) {
    json.Null();
    return;
  }
  const int first = asked.echo ? 0 : hypothesis.prefix_length();
  const int last = hypothesis.tokens_size();
  const bundle::TextCodec& codec = model.target();
  const std::vector<int32_t> before = WrittenBefore(codec, hypothesis);
  // What a token adds to the text there. Those of all tokens, one behind the other, are it.
  const auto piece_at = [&](int place, int32_t token) {
    return codec.WrittenBehind(token, before[static_cast<size_t>(place)]);
  };
  json.BeginObject().Key("tokens").BeginArray();
  for (int i = first; i < last; ++i) {
    json.String(ValidUtf8(piece_at(i, hypothesis.tokens(i))));
  }
  json.EndArray().Key("text_offset").BeginArray();
  int64_t offset = 0;  // in characters
  for (int i = first; i < last; ++i) {
    json.Int(offset);
    offset += CountCharacters(piece_at(i, hypothesis.tokens(i)));
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
        const std::string piece = piece_at(i, top.tokens(j));
        json.Key(piece.empty() ? codec.TokenText(top.tokens(j)) : ValidUtf8(piece))
            .Float(top.log_probs(j));
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

void WriteUsage(int64_t num_prompt, int64_t num_tokens, JsonWriter& json) {
  json.Key("usage").BeginObject().Key("prompt_tokens").Int(num_prompt);
  json.Key("completion_tokens").Int(num_tokens);
  json.Key("total_tokens").Int(num_prompt + num_tokens).EndObject();
}

std::string NewId() { return absl::StrCat("cmpl-", absl::ToUnixNanos(absl::Now())); }

// The samples of the answer: the best by the mean log-probability of their tokens, or all of them
// in the order of their numbers.
std::vector<const v1::Hypothesis*> Chosen(const CompletionBody& asked, const v1::Decoded& decoded) {
  std::vector<const v1::Hypothesis*> chosen;
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    chosen.push_back(&hypothesis);
  }
  const auto most = static_cast<size_t>(asked.most_choices);
  if (most > 0 && chosen.size() > most) {
    const auto mean = [](const v1::Hypothesis& hypothesis) {
      const int count = hypothesis.tokens_size() - hypothesis.prefix_length();
      return hypothesis.log_prob() / std::max(count, 1);
    };
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](const auto* a, const auto* b) { return mean(*a) > mean(*b); });
    chosen.resize(most);
  }
  return chosen;
}

HttpReply CompletionReply(const engine::DecodeModel& model, const CompletionBody& asked,
                          const v1::Decoded& decoded) {
  JsonWriter json;
  BeginCompletion(NewId(), asked.request.model(), json);
  int num_prompt = 0;
  int64_t num_tokens = 0;
  const std::vector<const v1::Hypothesis*> chosen = Chosen(asked, decoded);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const v1::Hypothesis& hypothesis = *chosen[i];
    const Choice choice = ChoiceOf(model, hypothesis);
    num_prompt = hypothesis.prefix_length();
    num_tokens += hypothesis.tokens_size() - num_prompt;
    const std::string prompt =
        asked.echo ? model.target().Decode(absl::MakeConstSpan(hypothesis.tokens().data(),
                                                               static_cast<size_t>(num_prompt)))
                   : "";
    json.BeginObject()
        .Key("index")
        .Int(static_cast<int64_t>(i))
        .Key("text")
        .String(absl::StrCat(prompt, choice.text));
    json.Key("logprobs");
    WriteLogProbs(model, asked, hypothesis, json);
    json.Key("finish_reason").String(choice.finish).EndObject();
  }
  json.EndArray();
  WriteUsage(num_prompt, num_tokens, json);
  json.EndObject();
  return JsonReply(json);
}

// The error of a call with the caller's own names: the prompt is the target prefix here.
absl::Status OfCompletion(const absl::Status& status) {
  return status::WithFields(status, [](absl::string_view field) {
    const bool is_prompt = absl::ConsumePrefix(&field, "options.target_prefix");
    return is_prompt ? std::string("prompt") : std::string(field);
  });
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
  void Advance() {
    while (!has_ended_) {
      v1::StreamDecodeResponse message;
      switch (stream_->Take(message, end_)) {
        case serving::DecodeStream::Taken::kNothing:
          return;
        case serving::DecodeStream::Taken::kEnd:
          has_ended_ = true;
          end_ = OfCompletion(end_);
          if (end_.ok() && body_.counts_streamed) {
            AddUsage();
          }
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
    const std::string& prompt = PromptText();
    if (!absl::StartsWith(stable.text(), prompt)) {
      return;
    }
    const absl::string_view text = absl::string_view(stable.text()).substr(prompt.size());
    AddEvent(stable.sample(), text, nullptr);
  }

  void AddAnswer(const v1::Decoded& decoded) {
    for (int i = 0; i < decoded.hypotheses_size(); ++i) {
      const Choice choice = ChoiceOf(*model_, decoded.hypotheses(i));
      AddEvent(i, choice.text, choice.finish);
      num_prompt_ = decoded.hypotheses(i).prefix_length();
      num_tokens_ += decoded.hypotheses(i).tokens_size() - num_prompt_;
    }
  }

  // The event with the numbers of tokens, which has no choices.
  void AddUsage() {
    JsonWriter json;
    BeginCompletion(id_, body_.request.model(), json);
    json.EndArray();
    WriteUsage(num_prompt_, num_tokens_, json);
    json.EndObject();
    events_.Add(json.text());
  }

  // Adds an event with the part of `text` that was not sent yet. text: all text behind the prompt;
  // finish: null while the choice goes on.
  void AddEvent(int index, absl::string_view text, const char* finish) {
    size_t& sent = sent_[index];
    if (text.size() <= sent && finish == nullptr) {
      return;
    }
    std::string piece(text.substr(std::min(sent, text.size())));
    if (body_.echo && sent == 0) {
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
    sent = std::max(sent, text.size());
  }

  // The prompt as the target's codec writes it: stable texts begin with it.
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
  int64_t num_prompt_ = 0, num_tokens_ = 0;
  std::map<int, size_t> sent_;  // by sample: bytes of its text behind the prompt
  EventQueue events_;
  bool has_events_ = false;  // besides that of the end
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
                           : ErrorReply(OfCompletion(answer.status()));
      });
}

}  // namespace

HttpReply Complete(const HttpRequest& request, serving::Core& core, const Asked& asked) {
  absl::StatusOr<CompletionBody> body = ReadCompletionBody(request.body);
  absl::Status status = body.status();
  serving::ModelPtr model;
  if (status.ok()) {
    absl::StatusOr<serving::ModelPtr> found = core.models().Lookup(body->request.model(), "");
    status = found.status();
    model = found.ok() ? *std::move(found) : nullptr;
  }
  if (model != nullptr && !engine::TakesEmptySources(*model)) {
    status = status::InvalidField("model", "'", body->request.model(),
                                  "' decodes a source; completions are for language models");
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
