// Decodes the sentences of a translation call, with a bounded number in flight, and calls `done`
// when all are back.
//
// 1. Pump hands sentences to the engine while there is room. One thread at a time does this: the
//    one that has set is_pumping_.
// 2. Take gets an answer, on the engine's thread. A sentence that was refused because the queue is
//    full tries again while other sentences of this call are in flight, and the room shrinks to
//    what was accepted; each answer lets it grow by one. A sentence that cannot be written with its
//    glossary is decoded again without it.
// 3. When half of the room is free, another Pump is posted to the reply threads: fewer wake-ups
//    than one per place.
#include "server/translate/sentence_decoder.h"

#include <algorithm>
#include <string>

#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "server/translate/alignment.h"

namespace beamwright::translate {
namespace {

// Whether a sentence was refused because others are ahead: it may try again while sentences of this
// call run.
bool IsForLaterOf(const absl::Status& status) {
  const std::string reason = status::ReasonOf(status);
  return absl::IsResourceExhausted(status) &&
         (reason == status::reason::kQueueFull || reason == status::reason::kTenantQuota);
}

}  // namespace

void SentenceDecoder::Start(serving::Core& core, serving::ModelPtr model,
                            const engine::CallOptions& call, std::vector<Sentence> sentences,
                            size_t most_in_flight, Done done, Progress progress) {
  std::make_shared<SentenceDecoder>(core, std::move(model), call, std::move(sentences),
                                    most_in_flight, std::move(done), std::move(progress))
      ->Pump();
}

SentenceDecoder::SentenceDecoder(serving::Core& core, serving::ModelPtr model,
                                 const engine::CallOptions& call, std::vector<Sentence> sentences,
                                 size_t most_in_flight, Done done, Progress progress)
    : core_(core),
      model_(std::move(model)),
      call_(call),
      done_(std::move(done)),
      progress_(std::move(progress)),
      sentences_(std::move(sentences)) {
  result_.most_in_flight = most_in_flight;
}

// Hands sentences to the engine as long as there is room for some, and ends the pass when all are
// back. One thread at a time: the one that set is_pumping_.
void SentenceDecoder::Pump() {
  std::vector<size_t> batch;
  size_t num_back = 0;
  for (;;) {
    batch.clear();
    {
      absl::MutexLock lock(&mutex_);
      num_back = num_back_;
      while (in_flight_ < result_.most_in_flight && HasWaiting()) {
        if (again_.empty()) {
          batch.push_back(next_++);
        } else {
          batch.push_back(again_.back());
          again_.pop_back();
        }
        ++in_flight_;
      }
      if (batch.empty() && in_flight_ > 0) {
        is_pumping_ = false;
        return;
      }
    }
    if (progress_ != nullptr && num_back > 0) {
      progress_(num_back);
    }
    for (const size_t number : batch) {
      Submit(number, num_back);
    }
    if (batch.empty()) {
      End();
      return;
    }
  }
}

void SentenceDecoder::Submit(size_t number, size_t num_back) {
  v1::Source source;
  source.set_text(std::string(sentences_[number].text));
  core_.engine().DecodeResolved(
      model_, std::move(source), sentences_[number].options, call_,
      [self = shared_from_this(), number, num_back](absl::StatusOr<v1::Decoded> decoded) {
        self->Take(number, num_back, std::move(decoded));
      });
}

// On the engine's thread, or within Submit.
void SentenceDecoder::Take(size_t number, size_t num_back, absl::StatusOr<v1::Decoded> decoded) {
  bool resumes = false;
  Sentence& sentence = sentences_[number];
  std::vector<FoundSentence> found = FoundOf(sentence, decoded);
  {
    absl::MutexLock lock(&mutex_);
    --in_flight_;
    // Sentences of this call fill the queue, or did when this one was refused and are back by now.
    const bool is_own_queue = in_flight_ > 0 || num_back_ > num_back;
    const bool is_for_later = is_own_queue && IsForLaterOf(decoded.status());
    num_back_ += is_for_later ? 0 : 1;
    if (decoded.ok()) {
      sentence.found = std::move(found);
      Count(*std::move(decoded));
      result_.most_in_flight = std::min(kMaxSentencesInFlight, result_.most_in_flight + 1);
    } else if (is_for_later) {
      again_.push_back(number);
      result_.most_in_flight = std::max<size_t>(1, in_flight_);
    } else if (sentence.without_glossary != nullptr &&
               absl::IsFailedPrecondition(decoded.status())) {
      sentence.options = std::exchange(sentence.without_glossary, nullptr);
      again_.push_back(number);
    } else {
      Fail(number, decoded.status());
    }
    // Half of the room at once costs half as many wake-ups as each place by itself.
    const bool has_room = in_flight_ <= result_.most_in_flight / 2;
    if (!is_pumping_ && (in_flight_ == 0 || (has_room && HasWaiting()))) {
      is_pumping_ = resumes = true;
    }
  }
  if (resumes) {
    core_.replies().Post([self = shared_from_this()] { self->Pump(); });
  }
}

void SentenceDecoder::End() {
  DecodedSentences result;
  {
    absl::MutexLock lock(&mutex_);
    result = std::move(result_);
  }
  result.sentences = std::move(sentences_);
  done_(std::move(result));
}

std::vector<FoundSentence> SentenceDecoder::FoundOf(
    const Sentence& sentence, const absl::StatusOr<v1::Decoded>& decoded) const {
  std::vector<FoundSentence> found;
  for (int i = 0; decoded.ok() && i < decoded->hypotheses_size(); ++i) {
    const v1::Hypothesis& hypothesis = decoded->hypotheses(i);
    found.push_back({hypothesis.text(), {}});
    if (sentence.finds_words) {
      found.back().words =
          AlignWords(model_->source(), sentence.text, model_->target(), hypothesis,
                     SeparatesWords(model_->config().translation().target_language()));
    }
  }
  return found;
}

void SentenceDecoder::Count(v1::Decoded decoded) {
  // Metrics count the best hypothesis.
  if (decoded.hypotheses_size() > 1) {
    decoded.mutable_hypotheses()->DeleteSubrange(1, decoded.hypotheses_size() - 1);
  }
  result_.queue_ms += decoded.queue_ms();
  result_.compute_ms += decoded.compute_ms();
  *result_.counted.add_results()->mutable_decoded() = std::move(decoded);
}

void SentenceDecoder::Fail(size_t number, const absl::Status& why) {
  result_.num_model_faults += absl::IsInternal(why) ? 1 : 0;
  ++result_.num_failed;
  *result_.counted.add_results()->mutable_error() = status::ToRpcStatus(why, status::Room::kBody);
  if (result_.failure.ok() || number < result_.failed) {
    result_.failed = number;
    result_.failure = why;
  }
}

}  // namespace beamwright::translate
