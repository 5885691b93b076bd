#include "tests/server/model/train_sentencepiece.h"

#include <sentencepiece_trainer.h>

namespace beamwright::model {
namespace {

class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t at_ = 0;
};

}  // namespace

std::string TrainSentencePiece(const std::vector<std::string>& sentences) {
  Lines lines(sentences);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--vocab_size=40 --hard_vocab_limit=false --model_type=unigram --minloglevel=2", &lines,
      &model);
  return status.ok() ? model : std::string();
}

}  // namespace beamwright::model
