// Part sender: what a stream of Translate sends before its last message. Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_PART_SENDER_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_PART_SENDER_H_

#include <cstdint>
#include <functional>

#include "beamwright/v1/translate.pb.h"

namespace beamwright::translate {

// For one call, on one thread at a time.
class PartSender {
 public:
  using Send = std::function<void(v1::TranslateResponse)>;

  // send: null, the call is no stream and nothing is sent.
  explicit PartSender(Send send) : send_(std::move(send)) {}

  bool is_stream() const { return send_ != nullptr; }

  // num_bytes: of all texts of the call.
  void Begin(int64_t num_bytes) { num_bytes_ = num_bytes; }

  // Of the texts that are worked on, num_bytes, this share is done. Sends it if it is a hundredth
  // of the call more than the last message said.
  void Report(int64_t num_bytes, double share, const v1::TranslateResponse& response);

  // Texts of num_bytes more are done.
  void Count(int64_t num_bytes) { num_done_ += num_bytes; }

  // Sends the translations before `end` of those that `response` has for each text, without those
  // that were sent before.
  void SendTexts(int end, v1::TranslateResponse& response);

  // The response becomes the stream's last message.
  void Finish(v1::TranslateResponse& response) const;

 private:
  void SendPart(v1::TranslateResponse part, const v1::TranslateResponse& response);

  const Send send_;
  int64_t num_bytes_ = 0;
  int64_t num_done_ = 0;
  double reported_ = 0;
  int num_sent_ = 0;  // texts
};

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_PART_SENDER_H_
