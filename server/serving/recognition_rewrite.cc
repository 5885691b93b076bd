// Recognition: the text of a segment as another model writes it, with punctuation for example.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/serving/recognition.h"
#include "server/serving/sources_call.h"

namespace beamwright::serving {
namespace {

constexpr char kNoLabel[] = "O";
constexpr char kCapital[] = "U";

// Words with what the tagger's labels put behind them. Empty: there is not a label for each word.
std::string Labelled(const engine::DecodeModel& tagger, const std::string& text,
                     const v1::Hypothesis& labels) {
  std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (words.size() != static_cast<size_t>(labels.tokens_size())) {
    return "";
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string label = tagger.target().TokenText(labels.tokens(static_cast<int>(i)));
    absl::string_view rest = label;
    if (absl::ConsumePrefix(&rest, kCapital)) {
      words[i][0] = absl::ascii_toupper(static_cast<unsigned char>(words[i][0]));
    }
    if (rest != kNoLabel) {
      absl::StrAppend(&words[i], rest);
    }
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

absl::Status Recognition::FindRewriter() {
  const std::string& name = model_->config().rewrite().model();
  if (name.empty()) {
    return absl::OkStatus();
  }
  absl::StatusOr<ModelPtr> rewriter = core_.models().Lookup(name, "");
  if (!rewriter.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("rewrite.model of model '", model_->name(),
                                                      "': ", rewriter.status().message()));
  }
  rewriter_ = *std::move(rewriter);
  return absl::OkStatus();
}

absl::Status Recognition::OpenRewriter() {
  if (rewriter_ != nullptr) {
    BW_ASSIGN_OR_RETURN(rewriter_options_, engine::ResolveOptions(*rewriter_, {}));
  }
  return absl::OkStatus();
}

void Recognition::Rewrite(int number, const std::string& text) {
  v1::Source source;
  source.set_text(text);
  engine::CallOptions options = EngineOptions(core_, caller_);
  options.call = call_.call;  // its segments take turns as the sources of one call
  core_.engine().DecodeResolved(
      rewriter_, std::move(source), rewriter_options_, options,
      [self = shared_from_this(), number](const absl::StatusOr<v1::Decoded>& answer) {
        self->OnRewritten(number, answer);
      });
}

// A text that the model could not rewrite stays as it was heard.
void Recognition::OnRewritten(int number, const absl::StatusOr<v1::Decoded>& answer) {
  {
    absl::MutexLock lock(&mutex_);
    for (EndedSegment& ended : segments_) {
      if (ended.segment.number() != number) {
        continue;
      }
      ended.is_ready = true;
      std::string& text = *ended.segment.mutable_hypotheses(0)->mutable_text();
      if (answer.ok() && !answer->hypotheses().empty()) {
        const v1::Hypothesis& best = answer->hypotheses(0);
        std::string written =
            rewriter_->config().has_tags() ? Labelled(*rewriter_, text, best) : best.text();
        text = written.empty() ? std::move(text) : std::move(written);
      }
    }
  }
  wake_();
}

}  // namespace beamwright::serving
