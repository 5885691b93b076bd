#include "server/translate/part_sender.h"

#include <algorithm>
#include <utility>

namespace beamwright::translate {
namespace {

constexpr double kLeastProgress = 0.01;

double Share(double part, int64_t whole) {
  return whole > 0 ? std::min(1.0, part / static_cast<double>(whole)) : 1;
}

}  // namespace

void PartSender::Report(int64_t num_bytes, double share, const v1::TranslateResponse& response) {
  const double done = static_cast<double>(num_done_) + static_cast<double>(num_bytes) * share;
  if (is_stream() && Share(done, num_bytes_) >= reported_ + kLeastProgress) {
    v1::TranslateResponse part;
    part.set_done(Share(done, num_bytes_));
    SendPart(std::move(part), response);
  }
}

void PartSender::SendTexts(int end, v1::TranslateResponse& response) {
  if (!is_stream()) {
    return;
  }
  v1::TranslateResponse part;
  for (; num_sent_ < end; ++num_sent_) {
    part.add_translations()->Swap(response.mutable_translations(num_sent_));
  }
  part.set_done(Share(static_cast<double>(num_done_), num_bytes_));
  SendPart(std::move(part), response);
}

void PartSender::Finish(v1::TranslateResponse& response) const {
  if (is_stream()) {
    response.mutable_translations()->DeleteSubrange(0, num_sent_);
    response.set_done(1);
  }
}

void PartSender::SendPart(v1::TranslateResponse part, const v1::TranslateResponse& response) {
  reported_ = part.done();
  part.set_source_language(response.source_language());
  part.set_confidence(response.confidence());
  part.set_target_language(response.target_language());
  send_(std::move(part));
}

}  // namespace beamwright::translate
